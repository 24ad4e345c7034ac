"""Twelve processes of less than half a second each, up to three at a time, each with a context and 20 to 75 MiB of its own."""
from common import MIB
import ctypes
import subprocess
import sys
import time

if len(sys.argv) > 1:
    cuda, context, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)]
    codes.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[1]) * MIB)))
    codes.append(cuda.cuMemsetD8_v2(at, 1, ctypes.c_size_t(MIB)))
    codes.append(cuda.cuCtxSynchronize())
    time.sleep(.12)
    sys.exit(max(codes))
running, codes = [], []
for number in range(12):
    running.append(subprocess.Popen([sys.executable, __file__, str(20 + 5 * number)]))
    if len(running) > number % 3:
        codes += [child.wait() for child in running]
        running.clear()
codes += [child.wait() for child in running]
print("codes", codes)
sys.exit(max(map(abs, codes)))
