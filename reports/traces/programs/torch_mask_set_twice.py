import os
import torch


def default():
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"


default()
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
print(torch.cuda.device_count(), torch.ones(1, device="cuda").item())
