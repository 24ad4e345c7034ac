# The forkserver preloads this module, which counts the GPUs in the function that runs in a child.
import multiprocessing
import os
import sys

import smallcuda


def work(number):
    smallcuda.set_device(number % smallcuda.device_count())
    smallcuda.allocate()


if __name__ == "__main__":
    kind = multiprocessing.get_context("forkserver")
    kind.set_forkserver_preload([os.path.basename(__file__).removesuffix(".py")])
    children = [kind.Process(target=work, args=(number,)) for number in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    sys.exit(max(abs(child.exitcode) for child in children))
