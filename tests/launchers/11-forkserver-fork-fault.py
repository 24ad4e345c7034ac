# The forkserver preloads this module, which counts the GPUs and so initializes CUDA there: no child can use it.
# exit: not 0
import multiprocessing
import os
import sys

import smallcuda

COUNT = smallcuda.device_count()


def work(number):
    smallcuda.set_device(number % COUNT)
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
