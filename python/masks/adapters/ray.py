"""Ray. Only the modules that determine the number of GPUs of a node are loaded. Ray's own copy of pynvml reads the UUID
table, and accelerators of other vendors are not detected."""

from support import Nvml, Question, alone

MEANS = (
    "A node that is started without `num_gpus` offers this number of GPUs. If the number is too high, Ray can place a "
    "task or actor for which no GPU is visible."
)

PARTS = [
    "ray._common.constants",
    "ray._common.utils",
    "ray._private.accelerators",
    "ray._private.ray_constants",
    "ray._private.thirdparty.pynvml",
]
spec = alone("ray._private.resource_and_label_spec", *PARTS)
pynvml = alone("ray._private.thirdparty.pynvml")
nvidia = alone("ray._private.accelerators.nvidia_gpu", *PARTS)


def setup(uuids):
    Nvml(pynvml, uuids)
    spec.accelerators.get_all_accelerator_resource_names = lambda: ["GPU"]
    spec.accelerators.get_accelerator_manager_for_resource = lambda _: nvidia.NvidiaGPUAcceleratorManager


QUESTIONS = [
    Question(
        "ResourceAndLabelSpec._get_current_node_accelerator(None, {})", "count",
        "Determines the number of GPUs that a node registers by default.",
        lambda _: spec.ResourceAndLabelSpec._get_current_node_accelerator(None, {})[1], nvidia,
        "from ray._private.resource_and_label_spec import ResourceAndLabelSpec as S; "
        "print(S._get_current_node_accelerator(None, {}))",
    )
]
