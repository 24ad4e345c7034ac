import torch

torch.cuda.set_device(1)
weights = torch.ones(1024, device="cuda")
moved = weights.cpu().to("cuda:0")
print(moved.device, torch.cuda.current_device())
