// Managed memory of 512 MiB, beside plain memory: untouched, touched by the GPU in parts, brought back to the host, freed.
#include "check.h"

__global__ void fill(char *at, size_t bytes, char value) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x)
        at[i] = value;
}

int main() {
    char *first, *second, *plain;
    alarm(45);
    MUST(cudaMalloc(&plain, 100 * MIB));
    MUST(cudaMallocManaged(&first, 320 * MIB));
    MUST(cudaMallocManaged(&second, 192 * MIB));
    hold(150);
    fill<<<132, 256>>>(first, 128 * MIB, 1);
    MUST(cudaDeviceSynchronize());
    hold(150);
    fill<<<132, 256>>>(first, 320 * MIB, 2);
    fill<<<132, 256>>>(second, 192 * MIB, 2);
    MUST(cudaDeviceSynchronize());
    hold(300);
    for (size_t i = 0; i < 320 * MIB; i += 4096)
        first[i]++;
    hold(150);
    MUST(cudaFree(second));
    MUST(cudaMalloc(&second, 250 * MIB));
    fill<<<132, 256>>>(second, 250 * MIB, 4);
    MUST(cudaDeviceSynchronize());
    hold(300);
    printf("%d\n", first[0]);
    return 0;
}
