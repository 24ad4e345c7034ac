import os
import torch

os.environ["CUDA_VISIBLE_DEVICES"] = "1,7,0"
print(torch.cuda.device_count(), torch.ones(1, device="cuda").item())
