import cupy
from cupy.cuda import runtime

take = cupy.RawKernel(
    r"""
extern "C" __global__ void take(unsigned long long *out, unsigned long long bytes) {
    void *taken = malloc(bytes);
    out[0] = (unsigned long long)taken;
    free(taken);
}
""",
    "take",
)
runtime.deviceSetLimit(runtime.cudaLimitMallocHeapSize, 64 << 20)
out = cupy.zeros(1, dtype=cupy.uint64)
take((1,), (1,), (out, cupy.uint64(32 << 20)))
print(int(out[0]) != 0, runtime.deviceGetLimit(runtime.cudaLimitMallocHeapSize) >> 20)
