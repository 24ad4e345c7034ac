"""Four ranks train with gloo and copy tensors to the other GPUs, which makes contexts there, and bring them back."""
from common import MIB, gpus, hold
import tempfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 4


def main(rank, store):
    count = gpus()
    own = torch.device("cuda", rank % count)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=WORLD)
    torch.cuda.set_device(own)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).to(own), device_ids=[own])
    for step in range(4):
        model(torch.randn(256, 1024, device=own)).sum().backward()
    dist.barrier()
    mine = torch.full(((16 + 8 * rank) * MIB,), rank, dtype=torch.uint8, device=own)
    copies = [mine.to(torch.device("cuda", other)) for other in range(count)]
    sums = [int(copy[:1000].sum()) for copy in copies]
    back = [copy.to(own) for copy in copies]
    for other in range(count):
        torch.cuda.synchronize(other)
    dist.barrier()
    hold(.4)
    dist.barrier()
    print("rank", rank, sums, len(back), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(tempfile.mkdtemp() + "/store",), nprocs=WORLD)
