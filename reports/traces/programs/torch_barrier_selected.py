import os
import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
device = torch.device("cuda", local_rank)
dist.init_process_group("nccl", device_id=device)
dist.barrier()
total = torch.ones(1, device=device)
dist.all_reduce(total)
print(os.environ["RANK"], total.item())
dist.destroy_process_group()
