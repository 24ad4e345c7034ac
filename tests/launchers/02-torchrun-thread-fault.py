# Each rank selects its GPU, but the threads that load its batches do not: these are on GPU 0.
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


with ThreadPoolExecutor(2) as loaders:
    for batch in loaders.map(load, range(4)):
        loss = model(batch.to(model.weight.device)).square().mean()
print("rank", local_rank, "batches on", batch.device, "loss", loss.item() >= 0)
