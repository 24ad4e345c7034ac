"""A DataLoader with workers and page-locked memory, and a network of convolutions (cuDNN)."""
import torch
from common import deadline, rounds, say_torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        return torch.rand(3, 64, 64, generator=made), index % 10


def main():
    deadline(60)
    torch.backends.cudnn.benchmark = True
    loader = DataLoader(Pictures(), batch_size=128, shuffle=True, num_workers=4, pin_memory=True, persistent_workers=True, drop_last=True)
    layers, channels = [], 3
    for wide in (64, 128, 256):
        layers += [torch.nn.Conv2d(channels, wide, 3, padding=1), torch.nn.BatchNorm2d(wide), torch.nn.ReLU()]
        layers += [torch.nn.MaxPool2d(2)]
        channels = wide
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(256 * 8 * 8, 10)).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    steps = 0
    for _ in rounds(3.0, at_least=1):
        for pictures, kinds in loader:
            pictures, kinds = pictures.to("cuda", non_blocking=True), kinds.to("cuda", non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(pictures), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
    print(steps, "steps of 128 pictures, loss", loss.item())
    say_torch()


if __name__ == "__main__":
    main()
