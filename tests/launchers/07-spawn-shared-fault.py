# The spawned function does not use its rank: all processes work on GPU 0.
# needs: torch
import os

import torch.multiprocessing

import smallcuda


def work(rank, count):
    smallcuda.set_device(0)
    smallcuda.allocate()
    assert smallcuda.meet(count)
    print("rank", rank, "done")


if __name__ == "__main__":
    count = int(os.environ["LAUNCHERS_GPUS"]) + 2
    torch.multiprocessing.spawn(work, args=(count,), nprocs=count)
