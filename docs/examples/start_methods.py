"""Who calls cuInit first, and what a worker gets, by start method: one line for each. Needs no package.

On the simulated machine: cuda-pitfalls sim --gpus 1 -- python3 start_methods.py
"""
import concurrent.futures
import ctypes
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading


def init():
    """The status of cuInit in this process: 0, or 3 in a child that was forked after its parent's."""
    return ctypes.CDLL("libcuda.so.1").cuInit(0)


def pooled(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(init)


def preloaded():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "heavy.py"), "w") as file:
        file.write("import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\n")
    os.environ["PYTHONPATH"] = folder
    multiprocessing.set_forkserver_preload(["heavy"])
    return pooled("forkserver")


def preloaded_main():
    os.environ["INIT_IN_MAIN"] = "1"
    return pooled("forkserver")


def executed():
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        return pool.submit(init).result()


def threaded():
    statuses = []
    thread = threading.Thread(target=lambda: statuses.append(init()))
    thread.start()
    thread.join()
    return statuses[0]


def fresh():
    return int(subprocess.run([sys.executable, __file__, "init"], stdout=subprocess.PIPE, check=True).stdout)


WORKERS = {
    "fork": lambda: pooled("fork"),
    "spawn": lambda: pooled("spawn"),
    "forkserver": lambda: pooled("forkserver"),
    "forkserver, preload calls cuInit": preloaded,
    "forkserver, main calls cuInit": preloaded_main,
    "multiprocessing's default": lambda: pooled(None),
    "ProcessPoolExecutor's default": executed,
    "subprocess": fresh,
    "thread": threaded,
}

# A fork server imports the main script from Python 3.13.8 and 3.14.1 on; before, each worker imports it.
if __name__ == "__mp_main__" and "INIT_IN_MAIN" in os.environ:
    init()

if __name__ == "__main__":
    if sys.argv[1:] == ["init"]:
        print(init())
    elif sys.argv[1:]:
        parent = init() if sys.argv[2] == "first" else "-"
        print("%-34s parent %-3s worker %s" % (sys.argv[1], parent, WORKERS[sys.argv[1]]()), flush=True)
    else:
        print("Python", sys.version.split()[0], "default", multiprocessing.get_start_method(), flush=True)
        for name in WORKERS:
            for order in ["first", "not"]:
                subprocess.run([sys.executable, __file__, name, order], check=True)
