"""Four ranks of mp.spawn train with gloo, two of them on each GPU while they have two, else all on one; they begin at once."""
from common import MIB, gpus, hold
import tempfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 4


def main(rank, store):
    device = torch.device("cuda", rank % min(2, gpus()))
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=WORLD)
    model = torch.nn.Linear(1024, 1024)
    dist.barrier()
    torch.cuda.set_device(device)
    model = torch.nn.parallel.DistributedDataParallel(model.to(device), device_ids=[device])
    for step in range(6):
        model(torch.randn(512, 1024, device=device)).square().mean().backward()
    held = torch.ones((20 + 10 * rank) * MIB, dtype=torch.uint8, device=device)
    torch.cuda.synchronize()
    dist.barrier()
    hold(.4)
    dist.barrier()
    print("rank", rank, device, held.numel() // MIB, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(tempfile.mkdtemp() + "/store",), nprocs=WORLD)
