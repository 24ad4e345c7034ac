#: what: Python's subprocess.Popen(env={}, start_new_session=True) of a Python that opens libcuda by its path, not waited for
#: kind: accident
import subprocess, sys
D = sys.argv[1]
code = "import ctypes,sys;l=ctypes.CDLL(sys.argv[1]+'/fake/libcuda.so.1');p=ctypes.c_void_p();l.cuInit(0) or l.cuDevicePrimaryCtxRetain(ctypes.byref(p),0)"
subprocess.Popen([sys.executable, "-I", "-c", code, D], env={}, start_new_session=True, close_fds=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
