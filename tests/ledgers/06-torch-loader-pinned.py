"""Page-locked host memory, and a DataLoader with forked workers, beside expandable segments of PyTorch."""
import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
from common import MIB, hold
import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.rand(2048, 3 * 32 * 32), torch.arange(2048) % 10)
    loader = DataLoader(data, batch_size=128, num_workers=2, pin_memory=True)
    model = torch.nn.Sequential(torch.nn.Linear(3072, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)).to("cuda")
    for pictures, kinds in loader:
        loss = torch.nn.functional.cross_entropy(model(pictures.to("cuda", non_blocking=True)), kinds.to("cuda"))
        loss.backward()
    locked = [torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    held = []
    for step in range(12):
        held.append(torch.ones((1 + step * 5) * MIB, dtype=torch.uint8, device="cuda"))
        held[-1][:MIB].copy_(locked[0][:MIB], non_blocking=True)
        if step % 3 == 2:
            held.pop(0)
    torch.cuda.synchronize()
    hold(.3)
    held.clear()
    torch.cuda.empty_cache()
    print("loss", loss.item(), "locked", len(locked))
    hold(.2)


if __name__ == "__main__":
    main()
