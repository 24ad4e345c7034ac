"""ClearML. Only `utilities/resource_monitor.py` is loaded, and it reads the list of GPUs from the table. Its
behavior with `NVIDIA_VISIBLE_DEVICES` set was not tested."""

from types import SimpleNamespace
from unittest import mock

from support import NotAsked, Question, alone, mask

MEANS = "The resource monitor reports the load and memory of these GPUs for the task."

monitor = alone("clearml.utilities.resource_monitor")
GPUS = []


def setup(uuids):
    GPUS[:] = [SimpleNamespace(index=index, uuid=uuid) for index, uuid in enumerate(uuids)]
    monitor.gpustat = SimpleNamespace(new_query=lambda **_: list(GPUS))
    monitor.ResourceMonitor._is_thread_mode_and_not_main_process = lambda _: True


def monitored(_):
    started = monitor.ResourceMonitor(mock.MagicMock())
    if mask() and started._active_gpus is None:
        raise NotAsked(
            "the function does not find any of the entries and then monitors all GPUs, as its comment documents"
        )
    return [gpu.index for gpu in GPUS if not started._skip_nonactive_gpu(gpu)]


QUESTIONS = [
    Question(
        "ResourceMonitor(task)._skip_nonactive_gpu(gpu)", "set",
        "Selects the GPUs to monitor.",
        monitored, monitor,
        "import os; print([g.strip() for g in os.environ['CUDA_VISIBLE_DEVICES'].split(',')])  # as ResourceMonitor",
    )
]
