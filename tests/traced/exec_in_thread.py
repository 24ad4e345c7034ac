# A thread that is not the first one replaces the program by another, which uses CUDA. Both initialise it, with one PID.
#
# shows init: init, mask (unset), twice: before the exec and after it
# shows context: context made on GPU 0, after the exec
import ctypes
import os
import sys
import threading

import driver

cuda = driver.Driver()
cuda.cuInit(0)  # here: init
if sys.argv[1:] == ["again"]:
    context = driver.handle()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
    print("done")
    sys.exit(0)


def replace():
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "again"])


threading.Thread(target=replace).start()
threading.Event().wait()
