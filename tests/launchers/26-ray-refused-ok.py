# A task selects device 0, which is the GPU that Ray has given it.
# environment: RAY_USAGE_STATS_ENABLED=0
# needs: ray
import os

import ray

import smallcuda

COUNT = int(os.environ["LAUNCHERS_GPUS"])
ray.init(num_cpus=8, num_gpus=int(os.environ["LAUNCHERS_GPUS"]), include_dashboard=False, log_to_driver=False)


@ray.remote(num_gpus=1, max_retries=0)
def work():
    smallcuda.set_device(0)
    smallcuda.allocate()
    return smallcuda.meet(COUNT, 5)


print(ray.get([work.remote() for _ in range(COUNT)]))
ray.shutdown()
