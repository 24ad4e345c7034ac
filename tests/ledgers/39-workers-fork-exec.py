"""Workers of a pool on all GPUs, each for two tasks only; then this process, which has contexts, forks and starts programs, and at
last becomes another program with the same PID."""
from common import MIB, gpus, hold
import ctypes
import multiprocessing
import os
import subprocess
import sys


def allocate(ordinal, mib, pause=.25):
    cuda, context, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal), cuda.cuCtxSetCurrent(context)]
    codes.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mib * MIB)))
    hold(pause)
    if max(codes):
        raise RuntimeError(f"codes {codes}")
    return os.getpid()


def main():
    count = gpus()
    if len(sys.argv) > 1:
        return print(sys.argv[1], allocate(int(sys.argv[2]), int(sys.argv[3])))
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(count, maxtasksperchild=2) as pool:
        print("workers", len(set(pool.starmap(allocate, [(number % count, 30 + 10 * number) for number in range(4 * count)], 1))))
    for ordinal in range(count):
        allocate(ordinal, 60, 0)
    hold()
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            if number == 0:
                os._exit(0)
            os.execv(sys.executable, [sys.executable, __file__, "forked", str(number % count), "90"])
        children.append(child)
    children += [subprocess.Popen([sys.executable, __file__, "started", str(count - 1), "45"]).pid]
    print("statuses", [os.waitpid(child, 0)[1] for child in children], flush=True)
    os.execv(sys.executable, [sys.executable, __file__, "became", str(count - 1), "150"])


if __name__ == "__main__":
    main()
