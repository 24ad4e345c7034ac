# The main thread works on GPU 1. A thread of a pool selects no device, and what it calls falls back to device 0: its memory is there.
# Another thread selects GPU 1 first. Needs two GPUs.
#
# shows init: init, mask (unset)
# shows main: context made on GPU 1
# shows lost: context made on GPU 0, on a thread without a current context
import concurrent.futures
import ctypes
import sys

import driver

cuda = driver.Driver()


def retain(device):
    context = driver.handle()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)  # here: main, lost
    cuda.cuCtxSetCurrent(context)


def allocate():
    current, memory = driver.handle(), driver.handle()
    cuda.cuCtxGetCurrent(ctypes.byref(current))
    if not current.value:
        retain(0)
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))


cuda.cuInit(0)  # here: init
driver.needs(2, cuda)
retain(1)
allocate()
for initializer in [lambda: retain(1), None]:
    with concurrent.futures.ThreadPoolExecutor(1, initializer=initializer) as pool:
        pool.submit(allocate).result()
print("done")
