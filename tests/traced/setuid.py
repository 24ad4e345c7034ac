# A program that gives up root, if it has it, and only then uses CUDA.
#
# shows init: init, mask (unset)
# shows context: context made on GPU 0
import ctypes
import os

import driver

# Found and opened as root: the folder of a library may be root's own.
cuda = driver.Driver()
context = driver.handle()
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print("root", os.getuid() == 0)
cuda.cuInit(0)  # here: init
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
print("done")
