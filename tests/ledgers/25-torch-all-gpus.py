"""One process of PyTorch works on all GPUs in one thread, and copies from each to the next."""
from common import MIB, gpus, hold
import torch

count = gpus()
held = []
for ordinal in range(count):
    device = torch.device("cuda", ordinal)
    held.append(torch.full(((60 + 40 * ordinal) * MIB,), ordinal, dtype=torch.uint8, device=device))
    a = torch.randn(2048, 2048, device=device)
    print(ordinal, (a @ a).sum().item())
hold(.1)
copies = [part.to(f"cuda:{(ordinal + 1) % count}") for ordinal, part in enumerate(held)]
for ordinal in range(count):
    torch.cuda.synchronize(ordinal)
print("peers", [torch.cuda.can_device_access_peer(0, other) for other in range(1, count)])
hold(.2)
model = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 64)).cuda())
for _ in range(3):
    model(torch.randn(512, 1024, device="cuda:0")).sum().backward()
for ordinal in range(count):
    torch.cuda.synchronize(ordinal)
hold(.4)
