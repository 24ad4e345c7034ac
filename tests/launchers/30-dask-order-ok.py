# The client works with its mask, and the workers get the same one.
# environment: CUDA_VISIBLE_DEVICES={down}
# needs: distributed
import os

from distributed import Client, LocalCluster

import smallcuda


def work(number):
    return smallcuda.allocate() != 0


if __name__ == "__main__":
    smallcuda.allocate()
    mask = os.environ["CUDA_VISIBLE_DEVICES"]
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(env={"CUDA_VISIBLE_DEVICES": mask}, **options) as cluster, Client(cluster) as client:
        print(client.gather(client.map(work, range(2))))
