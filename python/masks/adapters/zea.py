"""zea. `zea/internal/device.py` is loaded alone; nvidia-smi is replaced by a table in which each GPU's free memory is
its index."""

from support import NotAsked, Question, alone, is_uuids, mask

MEANS = "zea chooses a GPU among these by their free memory, and falls back to the CPU where there is none."

device = alone("zea.internal.device")


def setup(uuids):
    device.check_nvidia_smi = lambda: True
    table = "".join(f"{index}\n" for index in range(len(uuids)))
    device.sp.check_output = lambda *_, **__: table.encode()


def listed(_):
    if is_uuids(mask()):
        raise NotAsked("its documentation says that it supports integers, not UUIDs")
    return device.get_gpu_memory(verbose=False)


QUESTIONS = [
    Question(
        "zea.internal.device.get_gpu_memory()", "list",
        "The GPUs whose memory it lists, in the order of the list.",
        listed, device,
        "from zea.internal.device import get_gpu_memory; get_gpu_memory()",
    )
]
