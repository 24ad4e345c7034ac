# The main process counts all GPUs by NVML, gives each worker a mask of one, and each job counts what its worker sees.
# needs: joblib
from joblib.externals.loky import get_reusable_executor

import smallcuda


def work(number):
    smallcuda.set_device(number % smallcuda.device_count())
    return smallcuda.allocate() != 0


if __name__ == "__main__":
    count = smallcuda.device_count_of_nvml()
    with get_reusable_executor(max_workers=2, env={"CUDA_VISIBLE_DEVICES": "1"}) as executor:
        print(list(executor.map(work, range(count), chunksize=1)))
