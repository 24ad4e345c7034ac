import os
import torch

os.environ["CUDA_VISIBLE_DEVICES"] = ""
print(torch.cuda.is_available(), torch.ones(1).sum().item())
