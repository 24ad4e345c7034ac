"""Training of one compiled block. Compiling takes most of its time."""
import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
import torch
from common import deadline, rounds, say_torch
from model import Transformer

deadline(90)
torch.set_float32_matmul_precision("high")
model = Transformer(width=256, layers=1).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
compiled = torch.compile(model, dynamic=False)
x = torch.randn(32, 128, model.width, device="cuda")
for step in rounds(2.0):
    loss = compiled(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
print(step + 1, "compiled steps, loss", value)
say_torch()
