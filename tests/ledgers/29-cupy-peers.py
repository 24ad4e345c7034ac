"""CuPy on all GPUs: peer access in both directions, copies between pools, kernels that read a peer's memory, pinned memory."""
from common import MIB, gpus, hold
import cupy
import numpy

count = gpus()
parts = []
for ordinal in range(count):
    with cupy.cuda.Device(ordinal):
        parts.append(cupy.full((50 + 25 * ordinal) * MIB // 4, ordinal, dtype=cupy.float32))
hold(.1)
for ordinal in range(count):
    for peer in range(count):
        if peer != ordinal and cupy.cuda.runtime.deviceCanAccessPeer(ordinal, peer):
            with cupy.cuda.Device(ordinal):
                try:
                    cupy.cuda.runtime.deviceEnablePeerAccess(peer)
                except cupy.cuda.runtime.CUDARuntimeError as error:
                    print("peer", ordinal, peer, error)
hold(.1)
copies = []
for ordinal in range(count):
    with cupy.cuda.Device(ordinal):
        theirs = parts[(ordinal + 1) % count]
        copies.append(cupy.empty_like(theirs))
        copies[-1].data.copy_from_device_async(theirs.data, theirs.nbytes, cupy.cuda.get_current_stream())
        cupy.cuda.Device().synchronize()
    hold(.05)
pinned = cupy.cuda.alloc_pinned_memory(64 * MIB)
host = numpy.frombuffer(pinned, numpy.float32, 8 * MIB // 4)
host[:] = 5
for ordinal in range(count):
    with cupy.cuda.Device(ordinal):
        again = cupy.asarray(host)
        print(ordinal, float(parts[ordinal].sum()), float(copies[ordinal].sum()), float(again @ again))
        cupy.cuda.Device().synchronize()
hold(.4)
