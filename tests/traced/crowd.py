# Five workers that allocate on device 0 at the same time, of a launcher that never tells them which GPU is whose: GPU 1 has none.
# Needs two GPUs.
#
# shows init: init, mask (unset), in each worker
# shows crowd: context made on GPU 0, in each worker
import ctypes
import subprocess
import sys

import driver

if len(sys.argv) > 1:
    cuda = driver.Driver()
    context, memory = driver.handle(), driver.handle()
    cuda.cuInit(0)  # here: init
    driver.needs(2, cuda)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: crowd
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    print("ready", flush=True)
    sys.stdin.read()
    sys.exit(0)
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
workers = [subprocess.Popen([sys.executable, __file__, "worker"], **pipes) for _ in range(5)]
ready = [worker.stdout.readline() for worker in workers]
codes = [worker.wait() for worker in workers if worker.stdin.close() is None]
print("done" if ready == [b"ready\n"] * 5 else "needs 2 GPUs")
sys.exit(max(codes))
