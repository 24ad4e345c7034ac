import torch
from torch.profiler import ProfilerActivity, profile

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    a = torch.ones(256, 256, device="cuda")
    (a @ a).sum().item()
kernels = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
print("kernels", len(kernels) > 0)
