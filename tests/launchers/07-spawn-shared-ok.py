# The spawned function selects the GPU of its rank. There are more ranks than GPUs.
# needs: torch
import os

import torch.multiprocessing

import smallcuda


def work(rank, count):
    smallcuda.set_device(rank % int(os.environ["LAUNCHERS_GPUS"]))
    smallcuda.allocate()
    assert smallcuda.meet(count)
    print("rank", rank, "done")


if __name__ == "__main__":
    count = int(os.environ["LAUNCHERS_GPUS"]) + 2
    torch.multiprocessing.spawn(work, args=(count,), nprocs=count)
