# Each rank selects its GPU, and so does each thread that loads its batches.
# run: {torchrun} --standalone --nproc-per-node={gpus} {file}
# needs: torch
import os
from concurrent.futures import ThreadPoolExecutor

import torch

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = torch.nn.Linear(64, 8).cuda()


def load(number):
    return torch.randn(16, 64, device="cuda")


with ThreadPoolExecutor(2, initializer=torch.cuda.set_device, initargs=(local_rank,)) as loaders:
    for batch in loaders.map(load, range(4)):
        loss = model(batch.to(model.weight.device)).square().mean()
print("rank", local_rank, "batches on", batch.device, "loss", loss.item() >= 0)
