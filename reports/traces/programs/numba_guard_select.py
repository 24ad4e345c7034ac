from numba import cuda

cuda.select_device(1)
array = cuda.to_device([1.0, 2.0])
print(array.copy_to_host().sum())
