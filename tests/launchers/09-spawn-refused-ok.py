# The same in the driver's own calls: each rank narrows its mask to one GPU, and selects device 0.
# needs: torch
import os

import torch.multiprocessing

import smallcuda


def work(rank):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    smallcuda.set_device(0)
    smallcuda.allocate()
    print("rank", rank, "done")


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=int(os.environ["LAUNCHERS_GPUS"]))
