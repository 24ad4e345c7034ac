# A program works on both of its GPUs, hides one and becomes another program, which makes a context there and does nothing. Whatever
# the second one does or does not do, the first has used its contexts. Needs two GPUs.
#
# shows first: init, mask (unset), before the exec
# shows used: context made on GPU 0
# shows used: context made on GPU 1
# shows second: init, mask 1, after the exec
# shows idle: context made on GPU 0, after the exec, never used
import ctypes
import os
import sys

import driver

cuda = driver.Driver()
context, memory = driver.handle(), driver.handle()
if len(sys.argv) > 1:
    cuda.cuInit(0)  # here: second
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: idle
    print("done")
    sys.exit(0)
cuda.cuInit(0)  # here: first
driver.needs(2, cuda)
for device in range(2):
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)  # here: used
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "again"])
