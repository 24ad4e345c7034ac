import os
import torch

os.environ["CUDA_VISIBLE_DEVICES"] = "all"
try:
    torch.ones(1, device="cuda")
except RuntimeError as error:
    print(str(error).splitlines()[0])
