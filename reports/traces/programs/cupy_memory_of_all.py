import cupy

total = float(cupy.ones(16).sum())
for gpu in range(cupy.cuda.runtime.getDeviceCount()):
    free, all_bytes = cupy.cuda.Device(gpu).mem_info
    print(gpu, free >> 20, all_bytes >> 20)
print(total)
