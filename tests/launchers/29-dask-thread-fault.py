# The model is loaded by Client.run, in the worker's main thread, on the last GPU. Tasks run in a thread of a pool, on GPU 0.
# needs: distributed numba
from distributed import Client, LocalCluster


def load():
    from numba import cuda

    cuda.select_device(len(cuda.gpus) - 1)
    load.weights = cuda.device_array(1 << 16)


def work(number):
    from numba import cuda

    return cuda.device_array(1 << 16).size


if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        client.run(load)
        print(client.gather(client.map(work, range(4))))
