from numba import cuda

staging = cuda.pinned_array(1024)
cuda.select_device(1)
print(cuda.to_device(staging).shape)
