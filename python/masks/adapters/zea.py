"""zea. Only `zea/internal/device.py` is loaded. A table in which each GPU's free memory is its index replaces
nvidia-smi."""

from support import NotAsked, Question, alone, is_uuids, mask

MEANS = "zea chooses one of these GPUs by free memory, and falls back to the CPU if the list is empty."

device = alone("zea.internal.device")


def setup(uuids):
    device.check_nvidia_smi = lambda: True
    table = "".join(f"{index}\n" for index in range(len(uuids)))
    device.sp.check_output = lambda *_, **__: table.encode()


def listed(_):
    if is_uuids(mask()):
        raise NotAsked("according to its documentation, the function supports integers, not UUIDs")
    return device.get_gpu_memory(verbose=False)


QUESTIONS = [
    Question(
        "zea.internal.device.get_gpu_memory()", "list",
        "Lists the memory of the GPUs, in order.",
        listed, device,
        "from zea.internal.device import get_gpu_memory; get_gpu_memory()",
    )
]
