"""Clients of MPS: this program starts its control daemon, three clients on one GPU and one on the last share its server, and the
daemon ends before the program does."""
from common import MIB, gpus, hold
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time

if len(sys.argv) > 1:
    cuda, context, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(sys.argv[1])), cuda.cuCtxSetCurrent(context)]
    codes.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[2]) * MIB)))
    codes += [cuda.cuMemsetD8_v2(at, 1, ctypes.c_size_t(MIB)), cuda.cuCtxSynchronize()]
    hold(1.5)
    print("client", os.getpid(), codes)
    sys.exit(max(codes))
folder = tempfile.mkdtemp(prefix="mps-")
os.environ.update(CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder)
control = shutil.which("nvidia-cuda-mps-control") or "/usr/bin/nvidia-cuda-mps-control"


def command(*words):
    return subprocess.run([control], input="\n".join(words) + "\n", capture_output=True, text=True, timeout=15).stdout.strip()


# The daemon outlives what holds its pipes.
subprocess.run([control, "-d"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=15)
codes = [1]
try:
    last = gpus() - 1
    clients = [subprocess.Popen([sys.executable, __file__, *map(str, of)]) for of in ((0, 60), (0, 100), (0, 24), (last, 40))]
    codes = [client.wait() for client in clients]
    print("server", command("get_server_list"), "codes", codes)
finally:
    command("quit -t 2")
    for _ in range(50):
        if not os.path.exists(os.path.join(folder, "control.lock")) or not command("get_server_list"):
            break
        time.sleep(.1)
    for name in ("control.log", "server.log"):
        if max(codes) and os.path.exists(os.path.join(folder, name)):
            print(name, open(os.path.join(folder, name)).read()[-600:])
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(max(map(abs, codes)))
