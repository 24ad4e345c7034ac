import torch

device = torch.device("cuda", 1)
model = torch.nn.Linear(64, 64, device=device)
x = torch.randn(16, 64, device=device)
with torch.cuda.device(device), torch.autocast("cuda", dtype=torch.bfloat16):
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        model(x)
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    graph.replay()
torch.cuda.synchronize(device)
print(y.shape, y.device)
