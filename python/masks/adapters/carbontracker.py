"""carbontracker. Only `components/gpu/nvidia.py` is loaded, and pynvml reads the UUID table."""

import pynvml
from support import Nvml, Question, alone

MEANS = (
    "carbontracker attributes the power of these GPUs to the program, unless it looks up GPUs by the program's PIDs."
)

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
        "Selects the GPUs whose power is measured.",
        handles, nvidia,
        "from carbontracker.components.gpu.nvidia import NvidiaGPU; g = NvidiaGPU([], False); "
        "g.init(); print(len(g._handles))",
    )
]
