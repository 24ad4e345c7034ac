"""SGLang. Only `platforms/cuda.py` of its diffusion runtime and `cli/killall.py` are loaded. The table replaces the GPU
indices that `killall.py` reads from nvidia-smi."""

from support import NotAsked, Question, alone, is_uuids, mask, ordinals

MEANS = (
    "The diffusion runtime queries NVML for this GPU. An exception here ends the call, although CUDA can use the GPU. "
    "`killall`, which is for SGLang's CI, kills the processes on the GPUs that it finds."
)

PARTS = ["sglang.multimodal_gen.third_party.pynvml", "typing_extensions"]
cuda = alone("sglang.multimodal_gen.runtime.platforms.cuda", *PARTS)
killall = alone("sglang.cli.killall")


def setup(uuids):
    killall._run_smi = lambda *_, **__: [str(index) for index in range(len(uuids))]


def targets(_):
    if is_uuids(mask()):
        raise NotAsked("according to its comment, the function does not handle UUIDs")
    return killall._get_target_gpus()


QUESTIONS = [
    Question(
        "sglang.multimodal_gen.runtime.platforms.cuda.device_id_to_physical_device_id(i)", "ordinals",
        "Returns the NVML index of CUDA device i.",
        ordinals(cuda.device_id_to_physical_device_id), cuda,
        "from sglang.multimodal_gen.runtime.platforms.cuda import device_id_to_physical_device_id as p; print(p(0))",
    ),
    Question(
        "sglang.cli.killall._get_target_gpus()", "set",
        "Returns the GPUs whose processes are killed.",
        targets, killall,
        "from sglang.cli.killall import _get_target_gpus; print(_get_target_gpus())",
    ),
]
