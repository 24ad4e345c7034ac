import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
dist.barrier()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
total = torch.ones(1, device=device)
dist.all_reduce(total)
print(os.environ["RANK"], total.item())
dist.destroy_process_group()
