# The workers are given their mask by a name that nothing reads.
# needs: joblib cupy
from joblib.externals.loky import get_reusable_executor


def work(number):
    import cupy

    return float(cupy.ones(8).sum()), cupy.cuda.runtime.getDeviceCount()


if __name__ == "__main__":
    with get_reusable_executor(max_workers=2, env={"CUDA_AVAILABLE_DEVICES": "1"}) as executor:
        print(list(executor.map(work, range(2))))
