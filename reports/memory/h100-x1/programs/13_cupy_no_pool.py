"""CuPy without a pool: each array is an allocation of the driver."""
import cupy
from common import MIB, deadline, rounds, say

deadline()
cupy.cuda.set_allocator(None)
held = [cupy.full(64 * MIB, number, dtype=cupy.uint8) for number in range(12)]
for number in rounds(2.5):
    # One is given back and one is taken in each round.
    held[number % 12] = None
    held[number % 12] = cupy.full(64 * MIB, number % 256, dtype=cupy.uint8)
cupy.cuda.Device().synchronize()
print(number + 1, "arrays of 64 MiB, of which 12 are held; the first bytes:", [int(array[0]) for array in held])
say("cupy arrays", 0, sum(array.nbytes for array in held))
