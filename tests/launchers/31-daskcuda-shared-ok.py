# LocalCUDACluster turns the mask, so that each worker's own GPU is its device 0.
# needs: dask_cuda
import os

from dask_cuda import LocalCUDACluster
from distributed import Client

import smallcuda


def work(number, count):
    smallcuda.set_device(0)
    smallcuda.allocate()
    return smallcuda.meet(count)


if __name__ == "__main__":
    count = int(os.environ["LAUNCHERS_GPUS"])
    with LocalCUDACluster(dashboard_address=None) as cluster, Client(cluster) as client:
        client.wait_for_workers(count)
        found = client.scheduler_info(n_workers=-1)["workers"]
        workers = sorted(found, key=lambda worker: found[worker]["name"])
        jobs = [client.submit(work, number, count, workers=[worker], pure=False) for number, worker in enumerate(workers)]
        print(client.gather(jobs))
