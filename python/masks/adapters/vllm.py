"""vLLM. Only `vllm/platforms/cuda.py` and `interface.py` are loaded, and vLLM's own copy of pynvml reads the UUID
table."""

from support import Nvml, Question, alone, ordinals

MEANS = (
    "vLLM queries NVML for properties of this GPU, such as its compute capability and its links to other GPUs. An "
    "exception here ends the call, although CUDA can use the GPU."
)

cuda = alone("vllm.platforms.cuda", "vllm.platforms.interface", "vllm.third_party.pynvml")
pynvml = alone("vllm.third_party.pynvml")
cuda.pynvml = pynvml


def setup(uuids):
    Nvml(pynvml, uuids)


QUESTIONS = [
    Question(
        "NvmlCudaPlatform.visible_device_id_to_physical_device_id(i)", "ordinals",
        "Returns the NVML index of CUDA device i.",
        ordinals(cuda.NvmlCudaPlatform.visible_device_id_to_physical_device_id), cuda,
        "from vllm.platforms.cuda import NvmlCudaPlatform as P; print(P.visible_device_id_to_physical_device_id(0))",
    )
]
