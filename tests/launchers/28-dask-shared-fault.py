# Workers of dask's LocalCluster, none of which selects a device: all work on GPU 0.
# needs: distributed
import os

from distributed import Client, LocalCluster

import smallcuda


def work(number, count):
    smallcuda.allocate()
    return smallcuda.meet(count)


if __name__ == "__main__":
    count = int(os.environ["LAUNCHERS_GPUS"]) + 1
    with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.wait_for_workers(count)
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        jobs = [client.submit(work, number, count, workers=[worker], pure=False) for number, worker in enumerate(workers)]
        print(client.gather(jobs))
