# A program that closes every descriptor it did not open, as daemons do, and only then uses CUDA.
#
# shows init: init, mask (unset)
# shows context: context made on GPU 0
import ctypes
import os

import driver

os.closerange(3, 4096)
cuda = driver.Driver()
context = driver.handle()
cuda.cuInit(0)  # here: init
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
print("done")
