import torch.multiprocessing as mp
import torch


def work(rank, ready):
    tensor = torch.ones(1 << 20, device="cuda")
    ready.wait()
    print(rank, tensor.device, tensor.sum().item())


if __name__ == "__main__":
    mp.spawn(work, (mp.get_context("spawn").Barrier(5),), nprocs=5)
