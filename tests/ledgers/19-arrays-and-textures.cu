// Arrays, in one to three dimensions, layered, cubes and mipmapped ones, read through a texture; pitched memory beside them.
#include "check.h"

__global__ void samples(cudaTextureObject_t texture, float *out) { out[threadIdx.x] = tex2D<float4>(texture, threadIdx.x, 1).x; }

int main() {
    cudaChannelFormatDesc four = cudaCreateChannelDesc<float4>(), one = cudaCreateChannelDesc<unsigned char>();
    cudaArray_t flat, volume, layered, bytes;
    cudaMipmappedArray_t levels;
    cudaPitchedPtr pitched;
    cudaTextureObject_t texture;
    cudaResourceDesc resource = {};
    cudaTextureDesc how = {};
    float *out;
    alarm(45);
    MUST(cudaMalloc(&out, 4096));
    MUST(cudaMallocArray(&flat, &four, 3000, 2000));
    hold(150);
    MUST(cudaMalloc3DArray(&volume, &four, make_cudaExtent(200, 150, 100)));
    hold(100);
    MUST(cudaMalloc3DArray(&layered, &four, make_cudaExtent(500, 300, 12), cudaArrayLayered | cudaArraySurfaceLoadStore));
    MUST(cudaMallocArray(&bytes, &one, 4001, 777));
    hold(100);
    MUST(cudaMallocMipmappedArray(&levels, &four, make_cudaExtent(2048, 1024, 0), 8));
    hold(100);
    MUST(cudaMalloc3D(&pitched, make_cudaExtent(1000, 700, 90)));
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = flat;
    MUST(cudaCreateTextureObject(&texture, &resource, &how, NULL));
    samples<<<1, 32>>>(texture, out);
    MUST(cudaDeviceSynchronize());
    hold(400);
    MUST(cudaDestroyTextureObject(texture));
    MUST(cudaFreeArray(volume));
    MUST(cudaFreeMipmappedArray(levels));
    hold(150);
    puts("done");
    return 0;
}
