import os
import torch
from accelerate import Accelerator

accelerator = Accelerator()
total = torch.ones(1, device=accelerator.device)
total = accelerator.reduce(total)
print(os.environ.get("LOCAL_RANK"), accelerator.device, total.item())
accelerator.end_training()
