import torch


class TwoGpus(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(32, 64).to("cuda:0")
        self.second = torch.nn.Linear(64, 4).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).relu().to("cuda:1"))


model = TwoGpus()
model(torch.randn(8, 32)).sum().backward()
print(model.first.weight.grad.device, model.second.weight.grad.device)
