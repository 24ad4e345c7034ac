import numpy
import cupy

cupy.cuda.Device(1).use()
staging = cupy.cuda.alloc_pinned_memory(4096)
host = numpy.frombuffer(staging, numpy.float32, 1024)
host[:] = 1
print(float(cupy.asarray(host).sum()))
