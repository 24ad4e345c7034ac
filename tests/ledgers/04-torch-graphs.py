"""CUDA graphs of PyTorch: a training step, graphs that share a pool, and graphs that are dropped and captured anew."""
from common import hold
import torch
from torch import nn

model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
x = torch.randn(4096, 1024, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
training = torch.cuda.CUDAGraph()
with torch.cuda.graph(training):
    loss = step()
y = torch.randn(3072, 3072, device="cuda")
(y @ y).relu().sum().item()
for round in range(3):
    pool, graphs = torch.cuda.graph_pool_handle(), []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            kept = torch.cat([y @ y] * (1 + round)).relu()
        graphs.append((graph, kept))
    for _ in range(10):
        training.replay()
        for graph, _ in graphs:
            graph.replay()
    torch.cuda.synchronize()
    hold()
    del graphs, graph, kept
    torch.cuda.empty_cache()
print("loss", loss.item())
hold()
