import cupy

with cupy.cuda.Device(1):
    a = cupy.arange(10)
print(int(a.sum()))
