from numba import cuda

with cuda.gpus[1]:
    array = cuda.to_device([1.0, 2.0])
    total = array.copy_to_host().sum()
print(total)
