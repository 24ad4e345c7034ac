"""Two processes are ended by SIGKILL at their peaks: one that a library allocates for, one in the middle of a loop of allocations."""
from common import MIB
import ctypes
import os
import signal
import subprocess
import sys
import time


def allocate(count, mib, pause):
    cuda, context, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)]
    for _ in range(count):
        codes.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mib * MIB)))
        time.sleep(pause)
    return max(codes)


if len(sys.argv) > 1:
    if sys.argv[1] == "torch":
        import torch

        held = [torch.zeros(size * MIB, dtype=torch.uint8, device="cuda") for size in (100, 300, 70)]
        (torch.randn(2048, 2048, device="cuda") @ torch.randn(2048, 2048, device="cuda")).sum().item()
        time.sleep(.3)
        os.kill(os.getpid(), signal.SIGKILL)
    print("allocations", allocate(40, 16, .02), flush=True)
    time.sleep(20)
first = subprocess.Popen([sys.executable, __file__, "torch"])
second = subprocess.Popen([sys.executable, __file__, "loop"], stdout=subprocess.PIPE)
second.stdout.readline()
time.sleep(.3)
second.kill()
print("ended with", first.wait(), second.wait())
sys.exit(0 if first.returncode == second.returncode == -9 else 1)
