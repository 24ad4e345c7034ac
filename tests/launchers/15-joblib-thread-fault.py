# The main thread works on the last GPU. Threads of joblib do not know that, and work on GPU 0.
# needs: joblib cupy
import cupy
from joblib import Parallel, delayed

cupy.cuda.Device(cupy.cuda.runtime.getDeviceCount() - 1).use()
weights = cupy.ones(1 << 16)


def prepare(number):
    return float(cupy.full(1 << 16, number, dtype=cupy.float32).sum())


print(Parallel(n_jobs=2, backend="threading")(delayed(prepare)(number) for number in range(4)), float(weights.sum()))
