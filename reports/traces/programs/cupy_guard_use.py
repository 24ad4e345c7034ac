import cupy

cupy.cuda.Device(1).use()
a = cupy.arange(10)
print(int(a.sum()))
