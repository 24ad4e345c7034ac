# Ends with 3 by os._exit, with a context: no exit handler runs.
#
# shows init: init, mask (unset)
# shows context: context made on GPU 0
import ctypes
import os

import driver

cuda = driver.Driver()
context = driver.handle()
cuda.cuInit(0)  # here: init
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
os._exit(3)
