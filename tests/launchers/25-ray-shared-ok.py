# Actors that ask Ray for a GPU each get a mask of one.
# environment: RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0 RAY_USAGE_STATS_ENABLED=0
# needs: ray
import os

import ray

import smallcuda

COUNT = int(os.environ["LAUNCHERS_GPUS"])
ray.init(num_cpus=8, num_gpus=int(os.environ["LAUNCHERS_GPUS"]), include_dashboard=False, log_to_driver=False)


@ray.remote(num_gpus=1)
class Worker:
    def work(self):
        smallcuda.allocate()
        return smallcuda.meet(COUNT)


workers = [Worker.remote() for _ in range(COUNT)]
print(all(ray.get([worker.work.remote() for worker in workers])))
ray.shutdown()
