// Kernels with large frames: the driver's local memory grows at their first launches, and by a limit.
#include "check.h"

template <int WORDS> __global__ void frames(int *out, int shift) {
    volatile int mine[WORDS];
    for (int i = 0; i < WORDS; i++)
        mine[i] = i * shift;
    out[(blockIdx.x * blockDim.x + threadIdx.x) & 1023] = mine[(threadIdx.x + shift) % WORDS];
}

__device__ __noinline__ int deep(int n) {
    volatile int mine[16];
    mine[n & 15] = n;
    return n <= 0 ? mine[0] : deep(n - 1) + mine[n & 15];
}

__global__ void recursive(int *out, int n) { out[threadIdx.x] = deep(n); }

int main() {
    int *out;
    cudaStream_t other;
    alarm(45);
    MUST(cudaMalloc(&out, 4096));
    hold(100);
    frames<128><<<256, 128>>>(out, 3);
    MUST(cudaDeviceSynchronize());
    hold(150);
    frames<512><<<256, 128>>>(out, 3);
    MUST(cudaDeviceSynchronize());
    hold(150);
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    frames<1024><<<256, 128, 0, other>>>(out, 5);
    MUST(cudaDeviceSynchronize());
    hold(150);
    MUST(cudaDeviceSetLimit(cudaLimitStackSize, 5000));
    recursive<<<1, 64>>>(out, 20);
    MUST(cudaDeviceSynchronize());
    hold(400);
    return 0;
}
