"""CuPy: its pool, the driver's pool and managed memory in one process, with cuFFT, cuSOLVER and Thrust."""
from common import MIB, hold
import cupy

pool = cupy.get_default_memory_pool()
a = cupy.random.default_rng(7).standard_normal((2048, 2048), dtype=cupy.float32)
total = float((a @ a.T).sum()) + float(cupy.linalg.qr(a)[1].sum())
total += float(cupy.abs(cupy.fft.fft(cupy.arange(1 << 23, dtype=cupy.complex64))).max())
total += int(cupy.sort(cupy.arange(1 << 22)[::-1])[0])
cupy.cuda.Device().synchronize()
print("total", total, "pool", pool.total_bytes() // MIB)
hold()
del a
pool.free_all_blocks()
hold(.1)
cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
held = [cupy.ones(size * MIB, dtype=cupy.uint8) for size in (5, 50, 120, 33)]
cupy.cuda.Device().synchronize()
hold()
del held[1]
cupy.cuda.Device().synchronize()
cupy.cuda.set_allocator(cupy.cuda.malloc_managed)
managed = cupy.zeros(300 * MIB, dtype=cupy.uint8)
managed += 1
cupy.cuda.Device().synchronize()
print("managed", int(managed[-1]))
hold(.3)
