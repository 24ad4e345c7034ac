"""nvitop. It first queries libcuda in a child process, which needs a GPU and does not parse the mask. In this test
that child fails, as it does if libcuda cannot be loaded, so nvitop's own parser runs. pynvml reads the UUID table."""

import subprocess

import pynvml
from support import Nvml, Question, mask

MEANS = (
    "nvitop uses this parser only if it cannot query libcuda. Otherwise it shows the driver's result, and these "
    "differences do not apply."
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
            "Returns the NVML indices of the visible GPUs if libcuda cannot be queried.",
            lambda _: device.parse_cuda_visible_devices(mask()), device,
            "import nvitop.api.device as d; "
            "d.subprocess.check_output = lambda *_, **__: d.subprocess.run('false', check=True); "
            "print(d.parse_cuda_visible_devices())",
        )
    )


QUESTIONS = []
