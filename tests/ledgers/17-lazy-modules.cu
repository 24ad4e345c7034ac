// Code and data that are loaded late: variables of 64 MiB and 160 MiB, a managed one, and forty kernels.
#include "check.h"

__device__ char large[160 << 20];
__device__ int middle[16 << 20];
__constant__ int table[8192];
__managed__ int shared_by_both;

template <int NUMBER> __global__ void many(int *out) {
    float value = threadIdx.x;
#pragma unroll
    for (int i = 0; i < 300; i++)
        value = value * NUMBER + (value > i ? i : -value);
    out[threadIdx.x] = value + table[threadIdx.x % 8192];
}

__global__ void touches(int *out) { out[0] = large[threadIdx.x] + middle[threadIdx.x] + shared_by_both; }

template <int NUMBER> struct Each {
    static void launch(int *out) {
        many<NUMBER><<<1, 32>>>(out);
        MUST(cudaDeviceSynchronize());
        if (NUMBER % 20 == 0)
            hold(40);
        Each<NUMBER - 1>::launch(out);
    }
};

template <> struct Each<0> {
    static void launch(int *) {}
};

int main() {
    int *out, *at;
    alarm(45);
    MUST(cudaMalloc(&out, 4096));
    hold(150);
    Each<40>::launch(out);
    hold(150);
    MUST(cudaGetSymbolAddress((void **)&at, middle));
    MUST(cudaMemset(at, 1, sizeof middle));
    touches<<<1, 32>>>(out);
    MUST(cudaDeviceSynchronize());
    hold(400);
    puts("done");
    return 0;
}
