import torch


def work():
    device = torch.device("cuda:1")
    model = torch.nn.Linear(64, 64).to(device)
    return model(torch.ones(8, 64, device=device)).sum()


torch.cuda.set_device(1)
total = work()
torch.cuda.synchronize()
print(total.device)
