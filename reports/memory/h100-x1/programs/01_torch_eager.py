"""Eager training of a small transformer."""
import torch
from common import deadline, rounds, say_torch
from model import Transformer

deadline()
model = Transformer().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in rounds(3.0):
    x = torch.randn(32, 256, model.width, device="cuda")
    loss = model(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
print(step + 1, "steps, loss", value)
say_torch()
