import numpy as np
from numba import cuda


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


cuda.select_device(1)
a = np.arange(1024, dtype=np.float32)
out = np.zeros_like(a)
add[4, 256](a, a, out)
cuda.synchronize()
print(out.sum() == 2 * a.sum())
