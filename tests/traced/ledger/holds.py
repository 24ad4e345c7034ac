# Holds memory at two lines, gives the larger part back, and ends: holds.py [WAY].
#
# WAY is how it ends: by itself, `killed`, as a program without CUDA (`exec`), or with a child that was forked after cuInit and does
# nothing of CUDA (`fork`).
import ctypes
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import driver  # noqa: E402

way = (sys.argv[1:] + [""])[0]
cuda = driver.Driver()
context, large, small = driver.handle(), driver.handle(), driver.handle()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
cuda.cuCtxSetCurrent(context)
cuda.cuMemAlloc_v2(ctypes.byref(large), ctypes.c_size_t(64 << 20))  # here: large
cuda.cuMemAlloc_v2(ctypes.byref(small), ctypes.c_size_t(1 << 20))  # here: small
cuda.cuMemFree_v2(large)
if way == "fork":
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
if way == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if way == "exec":
    os.execvp("true", ["true"])
