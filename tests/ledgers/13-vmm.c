// Physical memory of cuMemCreate: mapped twice, mapped in parts, released while it is mapped, grown piece by piece.
#include "check.h"
#include <cuda.h>

static CUmemAllocationProp kind(void) {
    CUmemAllocationProp kind = {0};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return kind;
}

static void map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(cuMemMap(at, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(at, bytes, &access, 1));
    MUST(cuMemsetD8(at, 1, bytes));
}

int main(void) {
    enum { PIECES = 24 };
    CUcontext context;
    CUdeviceptr twice, area;
    CUmemGenericAllocationHandle first, never, pieces[PIECES];
    CUmemAllocationProp of = kind();
    alarm(45);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    // Mapped at two addresses: charged once.
    MUST(cuMemCreate(&first, 200 * MIB, &of, 0));
    MUST(cuMemAddressReserve(&twice, 400 * MIB, 0, 0, 0));
    map(twice, 200 * MIB, first);
    map(twice + 200 * MIB, 200 * MIB, first);
    MUST(cuCtxSynchronize());
    hold(150);
    // Released while mapped: held until both are unmapped.
    MUST(cuMemRelease(first));
    hold(150);
    MUST(cuMemUnmap(twice, 200 * MIB));
    hold(100);
    // Never mapped.
    MUST(cuMemCreate(&never, 64 * MIB, &of, 0));
    MUST(cuMemAddressReserve(&area, (size_t)PIECES * 32 * MIB, 0, 0, 0));
    for (int i = 0; i < PIECES; i++) {
        MUST(cuMemCreate(&pieces[i], (2 + 2 * (i % 16)) * MIB, &of, 0));
        map(area + i * 32 * MIB, (2 + 2 * (i % 16)) * MIB, pieces[i]);
        if (i % 5 == 4)
            MUST(cuMemRelease(pieces[i]));
        hold(10);
    }
    MUST(cuCtxSynchronize());
    hold(300);
    for (int i = 0; i < PIECES; i += 2) {
        MUST(cuMemUnmap(area + i * 32 * MIB, (2 + 2 * (i % 16)) * MIB));
        if (i % 5 != 4)
            MUST(cuMemRelease(pieces[i]));
    }
    hold(150);
    MUST(cuMemUnmap(twice + 200 * MIB, 200 * MIB));
    MUST(cuMemRelease(never));
    puts("done");
    hold(100);
    return 0;
}
