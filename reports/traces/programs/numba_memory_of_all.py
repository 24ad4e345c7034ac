from numba import cuda

array = cuda.to_device([1.0, 2.0])
for gpu in range(len(cuda.gpus)):
    with cuda.gpus[gpu]:
        free, total = cuda.current_context().get_memory_info()
        print(gpu, free >> 20, total >> 20)
print(array.copy_to_host().sum())
