# The launcher spawns the ranks and makes no context itself.
# needs: torch
import torch
import torch.multiprocessing


def work(rank):
    torch.cuda.set_device(rank)
    print("rank", rank, torch.ones(8, device="cuda").sum().item())


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=torch.cuda.device_count())
