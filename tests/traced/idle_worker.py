# The worker of a pool selects a device, as its parent did, and then only reads files: its context, the only one that it has, is never
# used.
#
# shows init: init, mask (unset), in both processes
# shows work: context made on GPU 0, and used
# shows idle: context made on GPU 0, in the worker
import ctypes
import multiprocessing

import driver


def select(cuda):
    context = driver.handle()
    cuda.cuInit(0)  # here: init
    return context


def begin():
    cuda = driver.Driver()
    context = select(cuda)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: idle


def load(number):
    return number * number


if __name__ == "__main__":
    cuda = driver.Driver()
    context, memory = select(cuda), driver.handle()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: work
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    with multiprocessing.get_context("spawn").Pool(1, initializer=begin) as pool:
        print(sum(pool.map(load, range(3))))
