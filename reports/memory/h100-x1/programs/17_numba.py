"""Numba: arrays of the device, and a kernel."""
import numpy

# numba-cuda 0.30 uses a name that NumPy 2.5 no longer has.
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
from common import MIB, deadline, rounds, say
from numba import cuda

deadline()


@cuda.jit
def blend(a, b, out, factor):
    at = cuda.grid(1)
    if at < out.size:
        out[at] = a[at] * factor + b[at]


count = 64 * MIB // 4
a = cuda.to_device(numpy.ones(count, dtype=numpy.float32))
b = cuda.to_device(numpy.full(count, 2, dtype=numpy.float32))
held = [cuda.device_array(count, dtype=numpy.float32) for _ in range(6)]
for number in rounds(2.5):
    blend[(count + 255) // 256, 256](a, b, held[number % 6], numpy.float32(3))
    cuda.synchronize()
print(number + 1, "launches; the first is", held[0][:1].copy_to_host()[0])
say("numba arrays", 0, 8 * 64 * MIB)
