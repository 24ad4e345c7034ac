# The main thread works on the last GPU, and so does each job in a thread of joblib, because it selects it.
# needs: joblib cupy
import cupy
from joblib import Parallel, delayed

device = cupy.cuda.Device(cupy.cuda.runtime.getDeviceCount() - 1)
device.use()
weights = cupy.ones(1 << 16)


def prepare(number):
    device.use()
    return float(cupy.full(1 << 16, number, dtype=cupy.float32).sum())


print(Parallel(n_jobs=2, backend="threading")(delayed(prepare)(number) for number in range(4)), float(weights.sum()))
