import torch.multiprocessing as mp
import torch


def work(rank, ready):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    tensor = torch.ones(1 << 20, device="cuda")
    ready.wait()
    print(rank, tensor.device, tensor.sum().item())


if __name__ == "__main__":
    mp.spawn(work, (mp.get_context("spawn").Barrier(4),), nprocs=4)
