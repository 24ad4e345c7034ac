# A rank takes its entry of the mask for a device number. The process sees one GPU, whose number is 0, whatever the mask calls it.
# run: {torchrun} --standalone --nproc-per-node=1 {file}
# environment: CUDA_VISIBLE_DEVICES={last}
# needs: torch
# exit: not 0
import os

import torch

local_rank = int(os.environ["LOCAL_RANK"])
mine = int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank])
torch.cuda.set_device(mine)
print("rank", local_rank, torch.ones(1, device="cuda").device)
