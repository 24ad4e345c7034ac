import torch

torch.cuda.set_device(1)
batch = torch.arange(1024.0).pin_memory()
print(batch.to("cuda:1", non_blocking=True).sum().item())
