import numpy
import cupy

staging = cupy.cuda.alloc_pinned_memory(4096)
host = numpy.frombuffer(staging, numpy.float32, 1024)
host[:] = 1
cupy.cuda.Device(1).use()
print(float(cupy.asarray(host).sum()))
