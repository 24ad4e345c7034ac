"""torchrun starts a rank for each GPU: DistributedDataParallel with NCCL, and one more group."""
from common import gpus, hold
import os
import sys

if "LOCAL_RANK" not in os.environ:
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus()}", __file__]
    os.execv(sys.executable, start)
import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
world = dist.get_world_size()
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters())
for step in range(10):
    optimizer.zero_grad()
    model(torch.randn(1024, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
group = dist.new_group(list(range(0, world, 2)))
total = torch.ones(8 << 20, device="cuda")
if rank % 2 == 0:
    dist.all_reduce(total, group=group)
torch.cuda.synchronize()
dist.barrier()
hold(.4)
print("rank", rank, "of", world, total[0].item(), flush=True)
dist.destroy_process_group()
