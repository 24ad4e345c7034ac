// Contexts that come and go: primary ones retained, reset and released, others beside them, memory left in each.
#include "check.h"
#include <cuda.h>

static CUdeviceptr take(size_t bytes) {
    CUdeviceptr at;
    MUST(cuMemAlloc(&at, bytes));
    MUST(cuMemsetD8(at, 1, bytes));
    return at;
}

static CUcontext made(CUdevice device) {
    CUcontext context;
#if CUDA_VERSION >= 13000
    MUST(cuCtxCreate(&context, NULL, 0, device));
#else
    MUST(cuCtxCreate(&context, 0, device));
#endif
    return context;
}

int main(void) {
    CUdevice device;
    CUcontext primary, second, third;
    alarm(45);
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    for (int round = 0; round < 4; round++) {
        MUST(cuDevicePrimaryCtxRetain(&primary, device));
        MUST(cuCtxSetCurrent(primary));
        take((40 + 10 * round) * MIB);
        hold(60);
        if (round % 2)
            MUST(cuDevicePrimaryCtxReset(device));
        else
            MUST(cuDevicePrimaryCtxRelease(device));
        MUST(cuCtxSetCurrent(NULL));
        hold(60);
    }
    // What a reset left is released.
    while (cuDevicePrimaryCtxRelease(device) == 0) {}
    second = made(device);
    take(100 * MIB);
    third = made(device);
    take(50 * MIB);
    MUST(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuCtxSetCurrent(primary));
    take(70 * MIB);
    MUST(cuCtxSynchronize());
    hold(300);
    MUST(cuCtxDestroy(second));
    hold(100);
    MUST(cuCtxDestroy(third));
    hold(100);
    for (int round = 0; round < 3; round++) {
        second = made(device);
        take(20 * MIB);
        hold(40);
        MUST(cuCtxDestroy(second));
    }
    MUST(cuCtxSetCurrent(primary));
    take(30 * MIB);
    hold(150);
    puts("done");
    return 0;
}
