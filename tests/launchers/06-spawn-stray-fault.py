# The launcher waits for its GPU before it spawns the ranks. It works on none: its context on GPU 0 is for nothing.
# needs: torch
import torch
import torch.multiprocessing


def work(rank):
    torch.cuda.set_device(rank)
    print("rank", rank, torch.ones(8, device="cuda").sum().item())


if __name__ == "__main__":
    torch.cuda.synchronize()
    torch.multiprocessing.spawn(work, nprocs=torch.cuda.device_count())
