import os
import torch


def choose():
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"


def setup():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU")


choose()
setup()
model = torch.nn.Linear(64, 64).to("cuda")
print(torch.cuda.device_count(), model(torch.ones(1, 64, device="cuda")).sum().item() == 0)
