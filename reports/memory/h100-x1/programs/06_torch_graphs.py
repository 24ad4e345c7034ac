"""A training step as a CUDA graph, and two more graphs that share a pool."""
import torch
from common import deadline, rounds, say_torch
from model import Transformer

deadline()
model = Transformer(layers=4).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
x = torch.randn(32, 128, model.width, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = model(x)
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

y = torch.randn(4096, 4096, device="cuda")
# Once without a graph, so that its code is there before a capture.
(y @ y).relu().sum().item()
pool, products = torch.cuda.graph_pool_handle(), []
for _ in range(2):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        product = (y @ y).relu().sum()
    products.append((graph, product))

for number in rounds(2.5):
    training.replay()
    for graph, _ in products:
        graph.replay()
    torch.cuda.synchronize()
print(number + 1, "replays of three graphs, loss", loss.item(), "sums", [round(p.item()) for _, p in products])
say_torch()
