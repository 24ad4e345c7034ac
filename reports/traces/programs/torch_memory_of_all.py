import torch

model = torch.nn.Linear(64, 64).to("cuda:0")
for gpu in range(torch.cuda.device_count()):
    free, total = torch.cuda.mem_get_info(gpu)
    print(gpu, free // 2**20, total // 2**20)
