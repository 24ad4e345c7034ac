"""CuPy with its pool: products (cuBLAS) and transforms (cuFFT)."""
import cupy
from common import deadline, rounds, say

deadline()
pool = cupy.get_default_memory_pool()
a = cupy.arange(4096 * 4096, dtype=cupy.float32).reshape(4096, 4096) / 4096**2
signal = cupy.arange(1 << 24, dtype=cupy.float32).astype(cupy.complex64)
for number in rounds(2.5):
    product = a @ a.T
    spectrum = cupy.fft.fft(signal)
    total = float(product.sum()) + float(cupy.abs(spectrum).max())
    # The pool gives back nothing by itself, so that the last reading is the highest.
cupy.cuda.Device().synchronize()
print(number + 1, "products and transforms, total", total)
say("cupy pool", 0, pool.total_bytes(), used=pool.used_bytes())
