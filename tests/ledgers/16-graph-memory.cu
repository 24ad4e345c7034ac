// Memory nodes of graphs: two graphs that take and free, one that leaves its memory to the program, and trimming.
#include "check.h"

__global__ void fill(char *at, size_t bytes, char value) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x)
        at[i] = value;
}

static cudaGraphExec_t captured(cudaStream_t stream, size_t bytes, char **left) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    char *inside;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    MUST(cudaMallocAsync((void **)&inside, bytes, stream));
    fill<<<132, 256, 0, stream>>>(inside, bytes, 3);
    if (left)
        *left = inside;
    else
        MUST(cudaFreeAsync(inside, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    MUST(cudaGraphDestroy(graph));
    return executable;
}

int main() {
    char *first, *left;
    cudaStream_t stream;
    alarm(45);
    MUST(cudaMalloc((void **)&first, MIB));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    fill<<<1, 32, 0, stream>>>(first, MIB, 1);
    MUST(cudaStreamSynchronize(stream));
    hold(100);
    cudaGraphExec_t small = captured(stream, 120 * MIB, NULL), large = captured(stream, 260 * MIB, NULL);
    cudaGraphExec_t leaves = captured(stream, 90 * MIB, &left);
    for (int round = 0; round < 5; round++) {
        MUST(cudaGraphLaunch(small, stream));
        MUST(cudaGraphLaunch(large, stream));
        MUST(cudaStreamSynchronize(stream));
        hold(50);
    }
    MUST(cudaGraphLaunch(leaves, stream));
    MUST(cudaStreamSynchronize(stream));
    hold(300);
    MUST(cudaFreeAsync(left, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaGraphExecDestroy(small));
    MUST(cudaGraphExecDestroy(large));
    hold(150);
    MUST(cudaDeviceGraphMemTrim(0));
    hold(150);
    puts("done");
    return 0;
}
