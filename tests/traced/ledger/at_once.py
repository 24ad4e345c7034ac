# Makes the primary contexts of both GPUs in two threads each, which wait for each other, and takes memory in them; then loads a kernel
# of one library on both GPUs, and ends a second context.
import ctypes
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import driver  # noqa: E402

cuda = driver.Driver()
cuda.cuInit(0)
together = threading.Barrier(4)
retained = [driver.handle() for _ in range(4)]


def work(number):
    address = driver.handle()
    together.wait()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(retained[number]), number % 2)
    cuda.cuCtxSetCurrent(retained[number])
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 << 20))


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.global .align 8 .b8 big[33554432];
.visible .entry k() { ret; }
"""
library, kernel, other = driver.handle(), driver.handle(), driver.handle()
cuda.cuCtxSetCurrent(retained[0])
cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0)
cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"k")
for number in (0, 1):
    cuda.cuCtxSetCurrent(retained[number])
    cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)  # here: launch
    cuda.cuCtxSynchronize()
cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0)  # here: second
cuda.cuCtxDestroy_v2(other)
