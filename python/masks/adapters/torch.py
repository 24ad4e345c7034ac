"""PyTorch. `torch/cuda/__init__.py` is loaded alone, without its compiled parts; the two functions that ask NVML by
ctypes are replaced by the table of UUIDs."""

from support import NotAsked, Question, alone, ordinals

MEANS = (
    "`torch.cuda.device_count()` is this number as long as the process has not initialised CUDA. Where it is wrong, "
    "it differs from the number of devices that can be used afterwards."
)

cuda = alone("torch.cuda")
cuda.torch.version.hip = None
cuda._get_device_index = lambda device, optional: device


def setup(uuids):
    cuda._raw_device_count_nvml = lambda: len(uuids)
    cuda._raw_device_uuid_nvml = lambda: list(uuids)


def count(_):
    answer = cuda._device_count_nvml()
    if answer < 0:
        raise NotAsked("it leaves the answer to the driver")
    return answer


QUESTIONS = [
    Question(
        "torch.cuda._device_count_nvml()", "count",
        "The number that `torch.cuda.device_count()` returns before CUDA is initialised, where NVML can be asked.",
        count, cuda,
        "import torch; print(torch.cuda._device_count_nvml())",
    ),
    Question(
        "torch.cuda._get_nvml_device_index(i)", "ordinals",
        "The NVML index of CUDA device i, by which `torch.cuda.utilization(i)` and the like ask NVML.",
        ordinals(cuda._get_nvml_device_index), cuda,
        "import torch; print([torch.cuda._get_nvml_device_index(i) for i in range(torch.cuda.device_count())])",
    ),
]
