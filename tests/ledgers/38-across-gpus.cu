// Memory across GPUs: physical memory of one mapped for another, a pool that a peer may use, managed memory that moves from GPU to
// GPU, and a second process on the last GPU that opens memory of the first.
#include "check.h"
#include <cuda.h>
#include <sys/wait.h>

__global__ void fill(char *at, size_t bytes, char value) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x)
        at[i] = value;
}

static int second(int from, int to) {
    cudaIpcMemHandle_t handle;
    void *opened, *own;
    char word = 'x';
    int count;
    alarm(45);
    MUST(read(from, &handle, sizeof handle) != (ssize_t)sizeof handle);
    MUST(cudaGetDeviceCount(&count));
    MUST(cudaSetDevice((count < 4 ? count : 4) - 1));
    MUST(cudaMalloc(&own, 40 * MIB));
    MUST(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
    MUST(cudaMemcpy(own, opened, 40 * MIB, cudaMemcpyDefault));
    MUST(cudaDeviceSynchronize());
    hold(400);
    MUST(cudaIpcCloseMemHandle(opened));
    hold(100);
    return write(to, &word, 1) != 1;
}

int main() {
    enum { MOST = 4 };
    int count, down[2], up[2], status = 1;
    char word, *managed;
    void *plain, *pooled;
    cudaIpcMemHandle_t handle;
    CUdeviceptr at;
    CUmemAccessDesc access[MOST] = {};
    cudaStream_t stream;
    MUST(pipe(down));
    MUST(pipe(up));
    pid_t child = fork();
    if (child == 0)
        return second(down[0], up[1]);
    alarm(45);
    MUST(cudaGetDeviceCount(&count));
    count = count < MOST ? count : MOST;
    for (int device = 0; device < count; device++) {
        access[device].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[device].location.id = device;
        access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc(&plain, 110 * MIB));
    MUST(cudaIpcGetMemHandle(&handle, plain));
    MUST(write(down[1], &handle, sizeof handle) != (ssize_t)sizeof handle);
    for (int device = 0; device < count; device++) {
        CUmemGenericAllocationHandle physical;
        CUmemAllocationProp kind = {};
        kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        kind.location = access[device].location;
        MUST(cuMemCreate(&physical, (60 + 20 * device) * MIB, &kind, 0));
        MUST(cuMemAddressReserve(&at, (60 + 20 * device) * MIB, 0, 0, 0));
        MUST(cuMemMap(at, (60 + 20 * device) * MIB, 0, physical, 0));
        MUST(cuMemSetAccess(at, (60 + 20 * device) * MIB, access, count));
        // From the GPU before it.
        MUST(cudaSetDevice((device + count - 1) % count));
        fill<<<16, 128>>>((char *)at, (60 + 20 * device) * MIB, 1);
        MUST(cudaDeviceSynchronize());
        hold(80);
    }
    MUST(cudaSetDevice(count - 1));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaMallocAsync(&pooled, 130 * MIB, stream));
    if (count > 1) {
        cudaMemPool_t pool;
        cudaMemAccessDesc to = {};
        to.location.type = cudaMemLocationTypeDevice;
        to.location.id = 0;
        to.flags = cudaMemAccessFlagsProtReadWrite;
        MUST(cudaDeviceGetDefaultMemPool(&pool, count - 1));
        MUST(cudaMemPoolSetAccess(pool, &to, 1));
    }
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaSetDevice(0));
    fill<<<16, 128>>>((char *)pooled, 130 * MIB, 2);
    MUST(cudaDeviceSynchronize());
    hold(150);
    MUST(read(up[0], &word, 1) != 1);
    MUST(cudaMallocManaged(&managed, 200 * MIB));
    for (int device = 0; device < count; device++) {
        MUST(cudaSetDevice(device));
        fill<<<64, 128>>>(managed, 200 * MIB, device);
        MUST(cudaDeviceSynchronize());
        hold(150);
    }
    waitpid(child, &status, 0);
    printf("the second process ended with %d\n", status);
    return status != 0;
}
