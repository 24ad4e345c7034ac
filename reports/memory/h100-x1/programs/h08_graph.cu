// holder: graph owner=program line=h08_graph.cu:36|h08_graph.cu:41 bytes=209715200
// Memory nodes of a graph: 200 MiB are taken by its launch and stay, although the graph frees them.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#define MUST(call) must(call, #call, __LINE__)
static void must(cudaError_t status, const char *call, int line) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(status));
    std::exit(1);
}

__global__ void fill(float *x, int n, float value) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) x[at] = value;
}

int main() {
    alarm(50);
    const int n = 50 << 20;
    float *small, *inside;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    MUST(cudaMalloc(&small, 4096 * sizeof *small));
    MUST(cudaMalloc(&inside, 4096 * sizeof *inside));
    MUST(cudaFree(inside));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    fill<<<16, 256, 0, stream>>>(small, 4096, 1);
    MUST(cudaStreamSynchronize(stream));
    usleep(300000);

    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    // The size is of the node; nothing is taken yet.
    MUST(cudaMallocAsync(&inside, n * sizeof *inside, stream)); // HOLDS
    fill<<<(n + 255) / 256, 256, 0, stream>>>(inside, n, 2);
    MUST(cudaFreeAsync(inside, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, stream)); // HOLDS
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    for (int round = 0; round < 200; round++) {
        fill<<<16, 256, 0, stream>>>(small, 4096, round);
        MUST(cudaStreamSynchronize(stream));
        usleep(5000);
    }
    size_t reserved = 0;
    MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
    std::printf("graphs have %zu bytes reserved after the last was destroyed\n", reserved);
    return 0;
}
