import cupy

with cupy.cuda.Device(1):
    a = cupy.arange(10)
    total = int(a.sum())
print(total)
