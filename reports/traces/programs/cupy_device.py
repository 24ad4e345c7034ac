import cupy

with cupy.cuda.Device(0):
    a = cupy.arange(10)
print(int(a.sum()))
