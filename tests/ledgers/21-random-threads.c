// Six threads take and give back at random by cuMemAlloc, cuMemAllocPitch, cuMemAllocAsync and cuMemCreate, each with a seed of its own.
#include "check.h"
#include <cuda.h>
#include <pthread.h>

enum { THREADS = 6, HELD = 12, STEPS = 120 };
enum { NONE, PLAIN, PITCHED, ASYNC, PHYSICAL };
static CUcontext context;

typedef struct { int how; CUdeviceptr at; CUmemGenericAllocationHandle handle; } Block;

static void take(Block *block, unsigned *seed, CUstream stream) {
    CUmemAllocationProp kind = {0};
    size_t pitch;
    block->how = 1 + dice(seed, 4);
    if (block->how == PLAIN)
        MUST(cuMemAlloc(&block->at, 1 + dice(seed, 24 * MIB)));
    if (block->how == PITCHED)
        MUST(cuMemAllocPitch(&block->at, &pitch, 1 + dice(seed, 5000), 1 + dice(seed, 3000), 4));
    if (block->how == ASYNC)
        MUST(cuMemAllocAsync(&block->at, 1 + dice(seed, 16 * MIB), stream));
    if (block->how == PHYSICAL) {
        kind.type = CU_MEM_ALLOCATION_TYPE_PINNED, kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        MUST(cuMemCreate(&block->handle, (2 + 2 * dice(seed, 10)) * MIB, &kind, 0));
    }
}

static void give(Block *block, CUstream stream) {
    if (block->how == PLAIN || block->how == PITCHED)
        MUST(cuMemFree(block->at));
    if (block->how == ASYNC)
        MUST(cuMemFreeAsync(block->at, stream));
    if (block->how == PHYSICAL)
        MUST(cuMemRelease(block->handle));
    block->how = NONE;
}

static void *work(void *number) {
    unsigned seed = 2100 + (unsigned)(long)number;
    Block held[HELD] = {{0}};
    CUstream stream;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int step = 0; step < STEPS; step++) {
        Block *block = &held[dice(&seed, HELD)];
        if (block->how)
            give(block, stream);
        else
            take(block, &seed, stream);
        if (step % 8 == 7)
            MUST(cuStreamSynchronize(stream));
        hold(2 + dice(&seed, 10));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    CUdeviceptr last;
    alarm(45);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    for (long i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL));
    MUST(cuMemAlloc(&last, 700 * MIB));
    MUST(cuCtxSynchronize());
    hold(300);
    puts("done");
    return 0;
}
