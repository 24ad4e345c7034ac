"""FSDP2 (fully_shard) on two GPUs."""
import os
import sys
import tempfile

os.environ["NCCL_NVLS_ENABLE"] = "0"
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from common import deadline, say_torch
from model import Transformer
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

WORLD = 2


def rank_main(rank, store):
    deadline(70)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cuda", (WORLD,))
    model = Transformer(width=1024, layers=8, heads=16).cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(30):
        x = torch.randn(8, 256, 1024, device="cuda")
        loss = model(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("rank", rank, "of", WORLD, step + 1, "sharded steps, loss", loss.item(), flush=True)
    say_torch(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    deadline(80)
    if torch.cuda.device_count() < WORLD:
        sys.exit(f"skipped: {torch.cuda.device_count()} GPUs")
    store = os.path.join(tempfile.mkdtemp(), "store")
    mp.spawn(rank_main, args=(store,), nprocs=WORLD)
    print("all ranks have ended")
