import torch

device = torch.device("cuda:1")
model = torch.nn.Linear(64, 64).to(device)
total = model(torch.ones(8, 64, device=device)).sum()
torch.cuda.synchronize(1)
print(total.device)
