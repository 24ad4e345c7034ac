"""PyTorch with expandable segments: memory of cuMemCreate, mapped into reserved addresses."""
import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
import torch
from common import deadline, rounds, say_torch
from model import Transformer

deadline()
model = Transformer().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in rounds(3.0, at_least=12):
    # Longer and longer, as where each batch has another length.
    x = torch.randn(16, 64 + 32 * (step % 12), model.width, device="cuda")
    loss = model(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
    if step == 11:
        # Unmaps what is free.
        del x, loss
        torch.cuda.empty_cache()
print(step + 1, "steps, loss", value)
say_torch()
