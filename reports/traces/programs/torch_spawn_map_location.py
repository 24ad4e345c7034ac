import os
import tempfile
import torch
import torch.multiprocessing


def worker(rank, path):
    torch.cuda.set_device(rank)
    weights = torch.load(path, map_location=f"cuda:{rank}")
    mine = weights + rank
    print(rank, weights.device, mine.device)


if __name__ == "__main__":
    path = os.path.join(tempfile.mkdtemp(), "weights.pt")
    torch.save(torch.ones(4, device="cuda"), path)
    torch.multiprocessing.spawn(worker, args=(path,), nprocs=2)
