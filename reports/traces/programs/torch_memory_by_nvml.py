import torch

model = torch.nn.Linear(64, 64).to("cuda:0")
for gpu in range(torch.cuda.device_count()):
    print(gpu, torch.cuda.device_memory_used(gpu) // 2**20)
