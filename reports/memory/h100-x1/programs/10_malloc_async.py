"""PyTorch on the driver's pool (cudaMallocAsync)."""
import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
import torch
from common import deadline, rounds, say_torch
from model import Transformer

deadline()
model = Transformer().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in rounds(3.0):
    x = torch.randn(16, 256, model.width, device="cuda")
    loss = model(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
print(step + 1, "steps on", torch.cuda.get_allocator_backend(), "loss", value)
say_torch()
