from numba import cuda

cuda.select_device(1)
staging = cuda.pinned_array(1024)
print(cuda.to_device(staging).shape)
