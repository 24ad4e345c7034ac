// Limits of the device: a heap of 192 MiB for malloc in kernels, and a buffer of 64 MiB for printf.
#include "check.h"

__global__ void takes(void **kept, int bytes) {
    kept[threadIdx.x] = malloc(bytes);
    if (kept[threadIdx.x] && threadIdx.x == 0)
        printf("thread 0 has %d bytes\n", bytes);
}

__global__ void gives(void **kept) { free(kept[threadIdx.x]); }

int main() {
    void **kept;
    size_t heap = 0, buffer = 0;
    alarm(45);
    MUST(cudaSetDevice(0));
    MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 192 * MIB));
    MUST(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 64 * MIB));
    hold(150);
    MUST(cudaMalloc(&kept, 32 * sizeof *kept));
    for (int round = 0; round < 4; round++) {
        takes<<<1, 32>>>(kept, 1 << 20);
        MUST(cudaDeviceSynchronize());
        hold(100);
        gives<<<1, 32>>>(kept);
        MUST(cudaDeviceSynchronize());
    }
    MUST(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    MUST(cudaDeviceGetLimit(&buffer, cudaLimitPrintfFifoSize));
    printf("heap %zu, printf %zu\n", heap, buffer);
    hold(300);
    return 0;
}
