import os
import torch

model = torch.nn.Linear(64, 64).to("cuda")
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
print(model(torch.ones(8, 64, device="cuda")).shape)
