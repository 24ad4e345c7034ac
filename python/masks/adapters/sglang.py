"""SGLang. `platforms/cuda.py` of its diffusion runtime and `cli/killall.py` are loaded alone; the latter gets the
indices that nvidia-smi would print from the table."""

from support import NotAsked, Question, alone, is_uuids, mask, ordinals

MEANS = (
    "The diffusion runtime asks NVML about this GPU; an exception here ends the call, although CUDA can use the GPU. "
    "`killall`, which is for SGLang's CI, ends the processes on the GPUs that it finds."
)

PARTS = ["sglang.multimodal_gen.third_party.pynvml", "typing_extensions"]
cuda = alone("sglang.multimodal_gen.runtime.platforms.cuda", *PARTS)
killall = alone("sglang.cli.killall")


def setup(uuids):
    killall._run_smi = lambda *_, **__: [str(index) for index in range(len(uuids))]


def targets(_):
    if is_uuids(mask()):
        raise NotAsked("its comment says that UUIDs are not handled")
    return killall._get_target_gpus()


QUESTIONS = [
    Question(
        "sglang.multimodal_gen.runtime.platforms.cuda.device_id_to_physical_device_id(i)", "ordinals",
        "The NVML index of CUDA device i.",
        ordinals(cuda.device_id_to_physical_device_id), cuda,
        "from sglang.multimodal_gen.runtime.platforms.cuda import device_id_to_physical_device_id as p; print(p(0))",
    ),
    Question(
        "sglang.cli.killall._get_target_gpus()", "set",
        "The GPUs whose processes are ended.",
        targets, killall,
        "from sglang.cli.killall import _get_target_gpus; print(_get_target_gpus())",
    ),
]
