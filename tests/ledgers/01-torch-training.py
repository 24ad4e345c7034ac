"""PyTorch trains a small transformer; then a thread of its own multiplies; then the cache is emptied and grows again."""
from common import hold
import threading
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, device="cuda")
model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(30):
    x = torch.randn(16, 128 + 8 * (step % 5), 512, device="cuda")
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
hold()


def multiply():
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    print("sum", (a @ a).float().sum().item())
    hold()


thread = threading.Thread(target=multiply)
thread.start()
thread.join()
del x, loss
torch.cuda.empty_cache()
held = [torch.zeros(48 << 20, dtype=torch.uint8, device="cuda") for _ in range(16)]
torch.cuda.synchronize()
hold(.4)
