"""DistributedDataParallel over NCCL on two GPUs, started by mp.spawn."""
import os
import sys
import tempfile

os.environ["NCCL_NVLS_ENABLE"] = "0"
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from common import deadline, rounds, say_torch
from model import Transformer
from torch.nn.parallel import DistributedDataParallel

WORLD = 2


def rank_main(rank, store):
    deadline(70)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=WORLD)
    model = DistributedDataParallel(Transformer().cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    # As many steps on each rank: time may differ between them.
    for step in range(40):
        x = torch.randn(16, 256, 512, device="cuda")
        loss = model(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    print("rank", rank, "of", WORLD, step + 1, "steps, mean loss", mean.item() / WORLD, flush=True)
    say_torch(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    deadline(80)
    if torch.cuda.device_count() < WORLD:
        sys.exit(f"skipped: {torch.cuda.device_count()} GPUs")
    store = os.path.join(tempfile.mkdtemp(), "store")
    mp.spawn(rank_main, args=(store,), nprocs=WORLD)
    print("all ranks have ended")
