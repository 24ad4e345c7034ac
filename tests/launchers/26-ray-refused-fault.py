# A task selects the number that Ray gives for its GPU. Ray has masked the others, so that the GPU is device 0.
# environment: RAY_USAGE_STATS_ENABLED=0
# needs: ray
# exit: not 0
import os

import ray

import smallcuda

COUNT = int(os.environ["LAUNCHERS_GPUS"])
ray.init(num_cpus=8, num_gpus=int(os.environ["LAUNCHERS_GPUS"]), include_dashboard=False, log_to_driver=False)


@ray.remote(num_gpus=1, max_retries=0)
def work():
    smallcuda.set_device(int(ray.get_gpu_ids()[0]))
    smallcuda.allocate()
    return smallcuda.meet(COUNT, 5)


print(ray.get([work.remote() for _ in range(COUNT)]))
ray.shutdown()
