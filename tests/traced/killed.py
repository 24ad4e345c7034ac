# Ends by SIGKILL, its own, with a context.
#
# shows init: init, mask (unset)
# shows context: context made on GPU 0
import ctypes
import os
import signal

import driver

cuda = driver.Driver()
context = driver.handle()
cuda.cuInit(0)  # here: init
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
os.kill(os.getpid(), signal.SIGKILL)
