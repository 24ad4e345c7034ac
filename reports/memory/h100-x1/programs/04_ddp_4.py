"""DistributedDataParallel over NCCL on four GPUs, started by torchrun, with a second group of two ranks."""
import os
import socket
import sys

os.environ["NCCL_NVLS_ENABLE"] = "0"
WORLD = 4


def launch():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = ["--nnodes=1", f"--nproc-per-node={WORLD}", "--master-addr=127.0.0.1", f"--master-port={port}"]
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *here, os.path.abspath(__file__)])


if "LOCAL_RANK" not in os.environ:
    launch()

import torch
import torch.distributed as dist
from common import deadline, say_torch
from model import Transformer
from torch.nn.parallel import DistributedDataParallel

deadline(70)
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = DistributedDataParallel(Transformer().cuda(), device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(40):
    x = torch.randn(16, 256, 512, device="cuda")
    loss = model(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
value = loss.detach().clone()
dist.all_reduce(value, group=pairs[rank // 2])
print("rank", rank, "of", WORLD, step + 1, "steps, loss of the pair", value.item() / 2, flush=True)
say_torch(rank)
dist.destroy_process_group()
