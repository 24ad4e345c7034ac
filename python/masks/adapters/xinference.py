"""Xinference. Only `device_utils.py` is loaded. pynvml reads the UUID table, and the only property read of a GPU is its
index."""

import pynvml
from support import Nvml, Question, alone

MEANS = "A worker reports these GPUs and their memory as `gpu-0`, `gpu-1` and so on."

utils = alone("xinference.device_utils", "pynvml")


def setup(uuids):
    Nvml(pynvml, uuids)
    utils._get_info_by_pynvml = lambda index: index


QUESTIONS = [
    Question(
        "xinference.device_utils.get_nvidia_gpu_info()", "list",
        "Returns the GPUs that a worker reports, in order.",
        lambda _: list(utils.get_nvidia_gpu_info().values()), utils,
        "from xinference.device_utils import get_nvidia_gpu_info; print(get_nvidia_gpu_info())",
    )
]
