#include <cstdio>
#include <cstdlib>

static void choose_gpu() { setenv("CUDA_VISIBLE_DEVICES", "7", 1); }

static float *make_buffer() {
    float *buffer = nullptr;
    cudaMalloc(&buffer, 1 << 20);
    return buffer;
}

int main() {
    int count = 0;
    cudaGetDeviceCount(&count);
    choose_gpu();
    float *buffer = make_buffer();
    cudaMemset(buffer, 0, 1 << 20);
    cudaDeviceSynchronize();
    std::printf("%d GPUs\n", count);
    return 0;
}
