// Two threads for each GPU begin at the same moment, take and give back at random, wander from GPU to GPU and copy between peers.
#include "check.h"
#include <pthread.h>

enum { MOST = 4, EACH = 2, HELD = 10, STEPS = 90 };
static int count;
static pthread_barrier_t together;

__global__ void fill(char *at, size_t bytes, char value) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x)
        at[i] = value;
}

static void *work(void *argument) {
    int number = (int)(long)argument, device = number % count;
    unsigned seed = 3100 + number;
    char *held[HELD] = {};
    int of[HELD] = {};
    size_t bytes[HELD] = {};
    pthread_barrier_wait(&together);
    MUST(cudaSetDevice(device));
    for (int step = 0; step < STEPS; step++) {
        int at = dice(&seed, HELD), other = dice(&seed, HELD);
        if (step % 12 == 11) {
            device = dice(&seed, count);
            MUST(cudaSetDevice(device));
        }
        if (held[at]) {
            MUST(cudaFree(held[at]));
            held[at] = NULL;
        } else {
            of[at] = device;
            bytes[at] = MIB / 2 + dice(&seed, 20 * MIB);
            MUST(cudaMalloc((void **)&held[at], bytes[at]));
            fill<<<16, 128>>>(held[at], bytes[at], step);
            MUST(cudaDeviceSynchronize());
        }
        if (held[at] && held[other] && at != other)
            MUST(cudaMemcpyPeer(held[at], of[at], held[other], of[other], MIB / 2));
        hold(2 + dice(&seed, 8));
    }
    pthread_barrier_wait(&together);
    if (number < count) {
        MUST(cudaSetDevice(number));
        for (int peer = 0, can; peer < count; peer++) {
            if (peer == number || cudaDeviceCanAccessPeer(&can, number, peer) || !can)
                continue;
            MUST(cudaDeviceEnablePeerAccess(peer, 0));
        }
        MUST(cudaMalloc((void **)&held[0], 500 * MIB));
        MUST(cudaMemset(held[0], 1, 500 * MIB));
        MUST(cudaDeviceSynchronize());
    }
    hold(300);
    return NULL;
}

int main() {
    pthread_t threads[MOST * EACH];
    alarm(45);
    MUST(cudaGetDeviceCount(&count));
    count = count < MOST ? count : MOST;
    MUST(pthread_barrier_init(&together, NULL, count * EACH));
    for (long i = 0; i < count * EACH; i++)
        MUST(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < count * EACH; i++)
        MUST(pthread_join(threads[i], NULL));
    puts("done");
    return 0;
}
