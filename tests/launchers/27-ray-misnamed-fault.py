# The tasks are given the last GPU by a name that nothing reads.
# environment: RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0 RAY_USAGE_STATS_ENABLED=0
# needs: ray
import os

import ray

import smallcuda

ray.init(num_cpus=8, num_gpus=int(os.environ["LAUNCHERS_GPUS"]), include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=1, runtime_env={"env_vars": {"AVAILABLE_CUDA_DEVICES": str(int(os.environ["LAUNCHERS_GPUS"]) - 1)}})
def work():
    smallcuda.allocate()
    return smallcuda.device_count()


print(ray.get(work.remote()))
ray.shutdown()
