"""Ranks that are forked before CUDA is initialised exchange with NCCL: all-to-all, all-gather, reduce-scatter, broadcast."""
from common import deadline, gpus, hold
import os
import sys
import tempfile
import torch
import torch.distributed as dist


def main(rank, world, store):
    deadline()
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=world)
    x = torch.arange(world * (2 << 20), device="cuda", dtype=torch.float32)
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x)
    part = torch.empty(2 << 20, device="cuda")
    dist.reduce_scatter_tensor(part, y)
    dist.all_gather_into_tensor(x, part)
    dist.broadcast(y, 0)
    torch.cuda.synchronize()
    dist.barrier()
    hold(.4)
    print("rank", rank, part[0].item(), flush=True)
    dist.destroy_process_group()


world, store, ranks = gpus(), tempfile.mkdtemp() + "/store", []
for rank in range(world):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            main(rank, world, store)
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    ranks.append(child)
statuses = [os.waitpid(child, 0)[1] for child in ranks]
sys.exit(any(statuses))
