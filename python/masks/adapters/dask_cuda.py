"""dask-cuda. Only `dask_cuda/utils.py` is loaded, and pynvml reads the UUID table."""

import pynvml
from support import Nvml, Question, alone, ordinals

MEANS = (
    "`LocalCUDACluster` and `dask cuda worker` start one worker for each entry, and set its memory limit and "
    "CPU affinity from the GPU that they find for it."
)

utils = alone("dask_cuda.utils", "toolz", "pynvml")


def setup(uuids):
    Nvml(pynvml, uuids)


def of_cluster(i):
    # As LocalCUDACluster does: it parses each entry, then writes a mask that begins with the i-th.
    visible = list(map(utils.parse_cuda_visible_device, utils.cuda_visible_devices(0).split(",")))
    device = utils.nvml_device_index(0, utils.cuda_visible_devices(i, visible))
    return pynvml.nvmlDeviceGetIndex(utils.get_gpu_handle(device))


def of_worker(i):
    # As cuda_worker.py does: the mask begins with the i-th entry, and the i-th of that mask is taken.
    device = utils.nvml_device_index(i, utils.cuda_visible_devices(i))
    return pynvml.nvmlDeviceGetIndex(utils.get_gpu_handle(device))


QUESTIONS = [
    Question(
        "nvml_device_index(i, cuda_visible_devices(i))", "ordinals",
        "Selects the GPU that determines the memory and CPU affinity of worker i in `dask cuda worker`. It runs on "
        "CUDA device i of the mask.",
        ordinals(of_worker), utils,
        "from dask_cuda.utils import *; "
        "print([nvml_device_index(i, cuda_visible_devices(i)) for i in range(get_n_gpus())])",
    ),
    Question(
        "dask_cuda.utils.get_n_gpus()", "count",
        "Returns the default number of workers.",
        lambda _: utils.get_n_gpus(), utils,
        "from dask_cuda.utils import get_n_gpus; print(get_n_gpus())",
    ),
    Question(
        "nvml_device_index(0, cuda_visible_devices(i, visible))", "ordinals",
        "Selects the GPU that determines the memory and CPU affinity of worker i in `LocalCUDACluster`. It runs on "
        "CUDA device i of the mask. `visible` is the mask, parsed with `parse_cuda_visible_device`.",
        ordinals(of_cluster), utils,
        "from dask_cuda.utils import *; v = list(map(parse_cuda_visible_device, cuda_visible_devices(0).split(','))); "
        "print(get_gpu_handle(nvml_device_index(0, cuda_visible_devices(0, v))))",
    ),
]
