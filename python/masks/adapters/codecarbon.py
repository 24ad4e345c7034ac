"""CodeCarbon. Only `external/hardware.py` and `core/config.py` are loaded, and they read the GPUs and UUIDs from
the table."""

from types import SimpleNamespace

from support import Question, alone, mask

MEANS = "CodeCarbon attributes the energy of these GPUs to the program. If the list is empty, it counts no GPU."

hardware = alone("codecarbon.external.hardware", "codecarbon.core.config")
config = alone("codecarbon.core.config")


def setup(uuids):
    table = [{"uuid": uuid, "gpu_index": index} for index, uuid in enumerate(uuids)]
    gpus = SimpleNamespace(device_count=len(table), devices=[], get_gpu_static_info=lambda: table)
    hardware.AllGPUDevices = lambda: gpus


def tracked(_):
    # As the tracker does where no `gpu_ids` are given; a mask that is empty counts as none there.
    return hardware.GPU(gpu_ids=config.normalize_gpu_ids(mask() or None))._get_gpu_ids()


QUESTIONS = [
    Question(
        "GPU(gpu_ids=normalize_gpu_ids(mask))._get_gpu_ids()", "set",
        "Returns the GPUs whose energy is counted if `gpu_ids` is not given.",
        tracked, hardware,
        "import os; from codecarbon.core.config import normalize_gpu_ids as n; "
        "from codecarbon.external.hardware import GPU; "
        "print(GPU(gpu_ids=n(os.environ['CUDA_VISIBLE_DEVICES'] or None))._get_gpu_ids())",
    )
]
