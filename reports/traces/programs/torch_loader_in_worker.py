import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((4,), float(index), device="cuda")


if __name__ == "__main__":
    model = torch.nn.Linear(4, 4).to("cuda")
    try:
        for batch in DataLoader(Samples(), batch_size=2, num_workers=1):
            model(batch)
    except RuntimeError as error:
        print(str(error).splitlines()[0])
