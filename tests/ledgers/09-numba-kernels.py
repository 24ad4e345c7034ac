"""Numba: arrays of the device, mapped and pinned ones, kernels with memory of each thread, and a second thread."""
from common import MIB, hold
import threading
import numpy

# numba-cuda 0.30 uses a name that NumPy 2.5 no longer has.
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
from numba import cuda, float32


@cuda.jit
def spread(a, out):
    at = cuda.grid(1)
    mine = cuda.local.array(512, float32)
    for i in range(512):
        mine[i] = a[at % a.size] + i
    total = float32(0)
    for i in range(512):
        total += mine[(at + i) % 512]
    if at < out.size:
        out[at] = total


count = 32 * MIB // 4
a = cuda.to_device(numpy.ones(count, dtype=numpy.float32))
held = [cuda.device_array(count, dtype=numpy.float32) for _ in range(6)]
spread[256, 256](a, held[0])
cuda.synchronize()
hold()


def other():
    pinned = cuda.pinned_array(count, dtype=numpy.float32)
    pinned[:] = 2
    stream = cuda.stream()
    mine = [cuda.to_device(pinned, stream=stream) for _ in range(4)]
    spread[64, 128, stream](mine[0], mine[1])
    stream.synchronize()
    print("other", mine[1][:1].copy_to_host()[0])
    hold()


thread = threading.Thread(target=other)
thread.start()
thread.join()
print("first", held[0][:1].copy_to_host()[0])
hold()
