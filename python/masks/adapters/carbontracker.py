"""carbontracker. `components/gpu/nvidia.py` is loaded alone; pynvml gets the table of UUIDs."""

import pynvml
from support import Nvml, Question, alone

MEANS = "The power of these GPUs is counted for the program, unless it looks for GPUs by the program's PIDs."

nvidia = alone("carbontracker.components.gpu.nvidia", "carbontracker.components.handler", "pynvml")


def setup(uuids):
    Nvml(pynvml, uuids)


def handles(_):
    gpus = nvidia.NvidiaGPU([], False)
    gpus.init()
    return [pynvml.nvmlDeviceGetIndex(handle) for handle in gpus._handles]


QUESTIONS = [
    Question(
        "NvidiaGPU(pids, devices_by_pid=False).init()", "set",
        "The GPUs whose power is read.",
        handles, nvidia,
        "from carbontracker.components.gpu.nvidia import NvidiaGPU; g = NvidiaGPU([], False); "
        "g.init(); print(len(g._handles))",
    )
]
