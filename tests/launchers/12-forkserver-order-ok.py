# The main process works with its mask, and each worker keeps the last entry of it.
# environment: CUDA_VISIBLE_DEVICES={down}
import multiprocessing
import os

import smallcuda


def begin(numbers):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(numbers[-1])


def work(number):
    return smallcuda.allocate() != 0


if __name__ == "__main__":
    numbers = [int(entry) for entry in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
    smallcuda.allocate()
    with multiprocessing.get_context("forkserver").Pool(2, initializer=begin, initargs=(numbers,)) as pool:
        print(pool.map(work, range(4)))
