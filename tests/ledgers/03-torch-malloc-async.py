"""PyTorch with the driver's pool (backend:cudaMallocAsync), two streams, sizes at random."""
import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"
from common import MIB, hold
import random
import time
import torch

dice, held = random.Random(3), []
streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
for step in range(80):
    with torch.cuda.stream(streams[step % 2]):
        if held and (len(held) > 12 or dice.random() < .4):
            held.pop(dice.randrange(len(held)))
        else:
            held.append(torch.ones(dice.randrange(1, 80) * MIB, dtype=torch.uint8, device="cuda"))
    if step % 10 == 9:
        torch.cuda.synchronize()
        time.sleep(.05)
a = torch.randn(3000, 3000, device="cuda")
print("sum", (a @ a).sum().item())
hold(.3)
held.clear()
torch.cuda.synchronize()
torch.cuda.empty_cache()
hold(.2)
