"""PyTorch. Only `torch/cuda/__init__.py` is loaded, without its compiled parts. The UUID table replaces the two
functions that query NVML through ctypes."""

from support import NotAsked, Question, alone, ordinals

MEANS = (
    "`torch.cuda.device_count()` returns this number until the process initializes CUDA. If the number is wrong, it "
    "differs from the number of devices that can be used afterwards."
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
        raise NotAsked("the function leaves the result to the driver")
    return answer


QUESTIONS = [
    Question(
        "torch.cuda._device_count_nvml()", "count",
        "Returns what `torch.cuda.device_count()` returns before CUDA is initialized, if NVML is available.",
        count, cuda,
        "import torch; print(torch.cuda._device_count_nvml())",
    ),
    Question(
        "torch.cuda._get_nvml_device_index(i)", "ordinals",
        "Returns the NVML index of CUDA device i, which `torch.cuda.utilization(i)` and similar functions pass to "
        "NVML.",
        ordinals(cuda._get_nvml_device_index), cuda,
        "import torch; print([torch.cuda._get_nvml_device_index(i) for i in range(torch.cuda.device_count())])",
    ),
]
