# Children that start anew: multiprocessing by spawn and by forkserver, and a command without any variable. The argument `bare` leaves
# only what is started by `env -i`.
#
# shows init: init, mask 0, in the spawned child and in that of the forkserver
# shows context: context made on GPU 0, in both
# shows bare: nothing of the child of `env -i`, and that it was not seen
import ctypes
import multiprocessing
import os
import subprocess
import sys

import driver


def work(answers):
    cuda = driver.Driver()
    context = driver.handle()
    cuda.cuInit(0)  # here: init
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # here: context
    count = driver.integer()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    answers.put(count.value)


BARE = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context = ctypes.c_void_p()
sys.exit(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
"""


def bare():
    # Without LD_LIBRARY_PATH the library is named by its path, which is this process's own.
    driver.Driver()
    with open("/proc/self/maps") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if "/" in line]
    found = [path for path in paths if os.path.basename(path).startswith(("libcuda.so", "libcuda_pitfalls_sim"))]
    # The driver's file bears its version in its name; one that is called libcuda.so.1 stands before it.
    own = [path for path in found if os.path.basename(path) != "libcuda.so.1"] or found
    ended = subprocess.call(["env", "-i", sys.executable, "-c", BARE, own[0]])
    print("bare", ended)


if __name__ == "__main__":
    if sys.argv[1:] != ["bare"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        for method in ["spawn", "forkserver"]:
            kind = multiprocessing.get_context(method)
            answers = kind.Queue()
            child = kind.Process(target=work, args=(answers,))
            child.start()
            print(method, answers.get(timeout=60))
            child.join()
    bare()
