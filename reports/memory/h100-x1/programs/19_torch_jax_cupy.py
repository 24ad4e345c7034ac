"""PyTorch, JAX and CuPy in one process, each with memory of its own."""
import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import torch
from common import deadline, rounds, say, say_torch
from model import Transformer

deadline(80)
model = Transformer(layers=3).to("cuda")
for step in rounds(1.0):
    model(torch.randn(16, 256, model.width, device="cuda")).backward()
    torch.cuda.synchronize()
print(step + 1, "steps of PyTorch")
say_torch()


def with_jax():
    from jax_work import train

    train(1.5, width=1024)


def with_cupy():
    import cupy

    array = cupy.from_dlpack(torch.arange(1 << 20, dtype=torch.float32, device="cuda"))
    held = [array * number for number in range(100)]
    cupy.cuda.Device().synchronize()
    print("100 arrays of CuPy, the last ends with", float(held[-1][-1]))
    say("cupy pool", 0, cupy.get_default_memory_pool().total_bytes())


for part in (with_jax, with_cupy):
    try:
        part()
    except Exception as error:
        print(part.__name__, "failed:", type(error).__name__, error)
torch.cuda.synchronize()
