# Each rank narrows its mask to one GPU, which is device 0 then, and selects the number of its rank.
# needs: torch
# exit: not 0
import os

import torch
import torch.multiprocessing


def work(rank):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    torch.cuda.set_device(rank)
    print("rank", rank, torch.ones(8, device="cuda").sum().item())


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=int(os.environ["LAUNCHERS_GPUS"]))
