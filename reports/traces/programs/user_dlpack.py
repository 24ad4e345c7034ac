import cupy
import torch

tensor = torch.arange(16, dtype=torch.float32, device="cuda:1")
array = cupy.from_dlpack(tensor)
with array.device:
    squared = array * array
back = torch.from_dlpack(squared)
print(back.device, back.sum().item())
