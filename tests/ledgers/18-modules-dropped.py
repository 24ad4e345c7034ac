"""Modules of CuPy with data of 16 to 96 MiB in them are loaded and dropped, beside each other and one after the other."""
from common import hold
import gc
import cupy


def module(number, mib):
    code = f"""
    __device__ char data[{mib << 20}];
    extern "C" __global__ void touch{number}(int *out) {{ data[threadIdx.x] = {number}; out[0] = data[0]; }}
    """
    made = cupy.RawModule(code=code)
    made.get_function(f"touch{number}")((1,), (32,), (out,))
    cupy.cuda.Device().synchronize()
    return made


out = cupy.zeros(32, dtype=cupy.int32)
held = [module(number, mib) for number, mib in enumerate((16, 48, 96))]
hold()
held.pop(1)
gc.collect()
hold()
for number in range(3, 7):
    held.append(module(number, 8 * number))
    hold(.05)
print("data of the first", int(out[0]))
hold(.3)
held.clear()
gc.collect()
hold()
