// Pools of the runtime: the default one and one of its own, thresholds, trimming, several streams, frees out of order.
#include "check.h"

int main() {
    enum { STREAMS = 3, HELD = 30 };
    unsigned seed = 15;
    cudaStream_t streams[STREAMS];
    cudaMemPool_t own, standard;
    cudaMemPoolProps kind = {};
    void *held[HELD] = {}, *large;
    unsigned long long all = ~0ull, some = 64 * MIB;
    alarm(45);
    for (int i = 0; i < STREAMS; i++)
        MUST(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    kind.allocType = cudaMemAllocationTypePinned;
    kind.location.type = cudaMemLocationTypeDevice;
    MUST(cudaMemPoolCreate(&own, &kind));
    MUST(cudaDeviceGetDefaultMemPool(&standard, 0));
    MUST(cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &all));
    MUST(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &some));
    for (int step = 0; step < 150; step++) {
        int at = dice(&seed, HELD);
        cudaStream_t stream = streams[step % STREAMS];
        if (held[at]) {
            MUST(cudaFreeAsync(held[at], stream));
            held[at] = NULL;
        } else if (step % 2) {
            MUST(cudaMallocFromPoolAsync(&held[at], (1 + dice(&seed, 40)) * MIB, own, stream));
        } else {
            MUST(cudaMallocAsync(&held[at], 1 + dice(&seed, 30 * MIB), stream));
        }
        MUST(cudaStreamSynchronize(stream));
        if (step % 10 == 9) {
            MUST(cudaDeviceSynchronize());
            hold(30);
        }
    }
    MUST(cudaMallocFromPoolAsync(&large, 300 * MIB, own, streams[0]));
    MUST(cudaStreamSynchronize(streams[0]));
    hold(300);
    MUST(cudaFreeAsync(large, streams[0]));
    MUST(cudaDeviceSynchronize());
    hold(150);
    MUST(cudaMemPoolTrimTo(own, 0));
    hold(150);
    for (int at = 0; at < HELD; at++)
        if (held[at])
            MUST(cudaFreeAsync(held[at], streams[at % STREAMS]));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemPoolDestroy(own));
    hold(150);
    puts("done");
    return 0;
}
