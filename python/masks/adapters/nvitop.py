"""nvitop. It first asks libcuda in a child, which needs a GPU and is no parser. Here that child fails, as it does
where libcuda cannot be loaded, so its own parser answers. pynvml gets the table of UUIDs."""

import subprocess

import pynvml
from support import Nvml, Question, mask

MEANS = (
    "This is the parser that nvitop uses where libcuda cannot be asked. Where it can, nvitop shows what the driver "
    "says, and nothing here applies to it."
)


def no_child(*arguments, **_):
    raise subprocess.CalledProcessError(1, arguments[0])


def setup(uuids):
    Nvml(pynvml, uuids)
    global device
    import nvitop.api.device as device

    device.subprocess.check_output = no_child
    QUESTIONS.append(
        Question(
            "nvitop.parse_cuda_visible_devices(mask)", "list",
            "The NVML indices of the visible GPUs, where libcuda cannot be asked.",
            lambda _: device.parse_cuda_visible_devices(mask()), device,
            "import nvitop.api.device as d; "
            "d.subprocess.check_output = lambda *_, **__: d.subprocess.run('false', check=True); "
            "print(d.parse_cuda_visible_devices())",
        )
    )


QUESTIONS = []
