import torch

model = torch.nn.DataParallel(torch.nn.Linear(32, 4)).cuda()
out = model(torch.randn(64, 32).cuda())
out.sum().backward()
print(out.shape, out.device)
