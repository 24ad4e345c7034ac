"""CuPy with a pool of managed memory, 640 MiB in all, touched by the GPU."""
import cupy
from common import MIB, deadline, rounds, say

deadline()
pool = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)
cupy.cuda.set_allocator(pool.malloc)
# Multiples of 128 MiB, so that nothing is left on the GPU beside other processes.
a = cupy.ones(256 * MIB // 4, dtype=cupy.float32)
b = cupy.ones(256 * MIB // 4, dtype=cupy.float32)
c = cupy.zeros(128 * MIB // 4, dtype=cupy.float32)
for number in rounds(2.5):
    cupy.add(a, 1, out=a)
    cupy.multiply(b, 0.5, out=b)
    cupy.add(c, a[: c.size], out=c)
    cupy.cuda.Device().synchronize()
print(number + 1, "rounds on managed memory:", float(a[0]), float(b[-1]), float(c[0]))
say("cupy managed pool", 0, pool.total_bytes())
