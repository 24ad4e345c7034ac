import torch

device = torch.device("cuda:1")
batch = torch.arange(1024.0).pin_memory()
print(batch.to(device, non_blocking=True).sum().item())
