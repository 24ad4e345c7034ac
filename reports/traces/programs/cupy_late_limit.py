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
out = cupy.zeros(1, dtype=cupy.uint64)
take((1,), (1,), (out, cupy.uint64(1 << 20)))
runtime.deviceSynchronize()
try:
    runtime.deviceSetLimit(runtime.cudaLimitMallocHeapSize, 64 << 20)
except runtime.CUDARuntimeError as error:
    print(error)
print(runtime.deviceGetLimit(runtime.cudaLimitMallocHeapSize) >> 20)
