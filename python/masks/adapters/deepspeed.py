"""DeepSpeed. Only `accelerator/cuda_accelerator.py` and `launcher/runner.py` are loaded."""

from support import NotAsked, Question, alone, mask, ordinals

MEANS = (
    "`available_memory()` reads the memory of this GPU from NVML. The launcher starts one rank on each of these GPUs, "
    "in this order, with a new mask."
)

accelerator = alone("deepspeed.accelerator.cuda_accelerator")
runner = alone("deepspeed.launcher.runner")
GPUS = []


def setup(uuids):
    GPUS[:] = uuids


def launched(_):
    if mask() == "":
        raise NotAsked("with an empty mask, the launcher calls `torch.cuda.device_count()`")
    # As main() does: the mask becomes the filter of the one host.
    include = "" if mask() is None else f"localhost:{mask()}"
    return runner.parse_inclusion_exclusion({"localhost": len(GPUS)}, include, "")["localhost"]


QUESTIONS = [
    Question(
        "CUDA_Accelerator._get_nvml_gpu_id(i)", "ordinals",
        "Returns the NVML index of CUDA device i.",
        ordinals(lambda i: accelerator.CUDA_Accelerator._get_nvml_gpu_id(None, i)), accelerator,
        "from deepspeed.accelerator import get_accelerator; print(get_accelerator()._get_nvml_gpu_id(0))",
    ),
    Question(
        "deepspeed.launcher.runner.parse_inclusion_exclusion(…)", "list",
        "Selects the GPUs of the ranks, in order, on one host and without other options. `main()` passes the mask "
        "to it.",
        launched, runner,
        "import os; from deepspeed.launcher.runner import parse_inclusion_exclusion as p; "
        "print(p({'localhost': 2}, 'localhost:' + os.environ['CUDA_VISIBLE_DEVICES'], ''))",
    ),
]
