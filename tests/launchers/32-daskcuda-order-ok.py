# LocalCUDACluster turns the mask of each worker. The client has initialized CUDA with its own order, and nothing is wrong.
# needs: dask_cuda
from dask_cuda import LocalCUDACluster
from distributed import Client

import smallcuda


def work(number):
    smallcuda.allocate()
    return smallcuda.meet(2, 3)


if __name__ == "__main__":
    with LocalCUDACluster(n_workers=2, dashboard_address=None) as cluster, Client(cluster) as client:
        smallcuda.allocate()
        client.wait_for_workers(2)
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        print(client.gather([client.submit(work, number, workers=[worker]) for number, worker in enumerate(workers)]))
