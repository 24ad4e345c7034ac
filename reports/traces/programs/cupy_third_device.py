import cupy

with cupy.cuda.Device(3):
    a = cupy.arange(10)
print(int(a.sum()))
