# A child that is forked after cuInit cannot use CUDA: its own cuInit fails.
#
# shows init: init, mask (unset)
# shows context: context made on GPU 0
# shows forked: forked, 1 context in the parent
# shows child: error of cuInit in the child
import ctypes
import os

import driver

cuda = driver.Driver()
context, memory = driver.handle(), driver.handle()
cuda.cuInit(0)  # here: init
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
cuda.cuCtxSetCurrent(context)
cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
child = os.fork()  # here: forked
if child == 0:
    status = cuda.unchecked.cuInit(0)  # here: child
    os._exit(0 if status != 0 else 1)
_, status = os.waitpid(child, 0)
print("child refused", status == 0)
