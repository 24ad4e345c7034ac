# libcuda opened by its absolute path, the argument: no search finds another one first. Without an argument it is opened by its name.
#
# shows init: init, mask (unset), by the injection hook alone
# shows unseen: that calls of this process were not seen
import ctypes
import sys

import driver

cuda = driver.Driver(*sys.argv[1:2])
context = driver.handle()
cuda.cuInit(0)  # here: init
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
print("done")
