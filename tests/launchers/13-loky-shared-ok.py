# More workers of loky than GPUs, spread over all of them.
# needs: joblib
import os
from multiprocessing import Manager

from joblib.externals.loky import get_reusable_executor

import smallcuda


def begin(numbers, gpus):
    smallcuda.set_device(numbers.get() % gpus)


def work(number, count):
    smallcuda.allocate()
    return smallcuda.meet(count)


if __name__ == "__main__":
    gpus = int(os.environ["LAUNCHERS_GPUS"])
    count = 2 * gpus + 1
    with Manager() as manager:
        numbers = manager.Queue()
        for number in range(2 * count):
            numbers.put(number)
        with get_reusable_executor(max_workers=count, initializer=begin, initargs=(numbers, gpus)) as executor:
            print(all(executor.map(work, range(count), [count] * count, chunksize=1)))
