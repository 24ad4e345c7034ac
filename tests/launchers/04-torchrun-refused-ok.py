# A rank of a masked launcher selects its local rank, which counts the GPUs that the mask leaves.
# run: {torchrun} --standalone --nproc-per-node=1 {file}
# environment: CUDA_VISIBLE_DEVICES={last}
# needs: torch
import os

import torch

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
print("rank", local_rank, torch.ones(1, device="cuda").device)
