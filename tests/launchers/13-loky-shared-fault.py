# More workers of loky than GPUs, and all of them work on GPU 0.
# needs: joblib
import os

from joblib.externals.loky import get_reusable_executor

import smallcuda


def work(number, count):
    smallcuda.allocate()
    return smallcuda.meet(count)


if __name__ == "__main__":
    count = 2 * int(os.environ["LAUNCHERS_GPUS"]) + 1
    with get_reusable_executor(max_workers=count) as executor:
        print(all(executor.map(work, range(count), [count] * count, chunksize=1)))
