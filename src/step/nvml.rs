//! Calls of NVML made by the process under test, `libnvidia-ml.so.1` (`nvml.h`).
//!
//! These are subjects of experiments. What the harness itself reads, it reads from a process of
//! its own, see [`crate::sampler`].

use super::layout::{NVML_BAR1_MEMORY, NVML_MEMORY, NVML_MEMORY_V2, PROCESS_COUNT, PROCESS_INFOS};
use super::{Kind, Library, Output, StepKind, fixed, handle, out, param, text, uint};

const fn call(name: &'static str, summary: &'static str, params: &'static [super::Param]) -> StepKind {
    super::row(Library::Nvml, name, summary, params)
}

/// What every version of the list of processes takes.
const RUNNING_PROCESSES: &[super::Param] = &[
    handle("gpu", "gpu"),
    param("count", Kind::Out(Output::Struct(&PROCESS_COUNT))),
    param("infos", Kind::Out(Output::Struct(&PROCESS_INFOS))),
];

pub(super) static STEPS: &[StepKind] = &[
    call("nvmlInit_v2", "Initialises NVML and attaches to the GPUs.", &[]),
    call("nvmlInitWithFlags", "Initialises NVML; flag 2 does not attach to the GPUs.", &[uint("flags")]),
    call("nvmlShutdown", "Undoes nvmlInit_v2.", &[]),
    call(
        "nvmlSystemGetDriverVersion",
        "Reads the driver's version.",
        &[out("version", Output::Text(80)), fixed("length", 80)],
    ),
    call(
        "nvmlSystemGetNVMLVersion",
        "Reads the version of NVML.",
        &[out("version", Output::Text(80)), fixed("length", 80)],
    ),
    call(
        "nvmlSystemGetCudaDriverVersion",
        "Reads the CUDA version the driver supports.",
        &[out("version", Output::I32)],
    ),
    call(
        "nvmlSystemGetCudaDriverVersion_v2",
        "Reads the CUDA version of the libcuda it finds.",
        &[out("version", Output::I32)],
    ),
    call("nvmlDeviceGetCount_v2", "Counts the GPUs of the machine.", &[out("count", Output::U32)]),
    call(
        "nvmlDeviceGetHandleByIndex_v2",
        "Finds a GPU by NVML index.",
        &[uint("index"), out("gpu", Output::Handle("gpu"))],
    ),
    call(
        "nvmlDeviceGetHandleByUUID",
        "Finds a GPU by its full UUID.",
        &[text("uuid"), out("gpu", Output::Handle("gpu"))],
    ),
    call(
        "nvmlDeviceGetUUID",
        "Reads the UUID of a GPU.",
        &[handle("gpu", "gpu"), out("uuid", Output::Text(96)), fixed("length", 96)],
    ),
    call(
        "nvmlDeviceGetMemoryInfo",
        "Reads memory, with the driver's reserve counted as used.",
        &[handle("gpu", "gpu"), out("memory", Output::Struct(&NVML_MEMORY))],
    ),
    call(
        "nvmlDeviceGetMemoryInfo_v2",
        "Reads memory, with the driver's reserve apart.",
        &[handle("gpu", "gpu"), out("memory", Output::Struct(&NVML_MEMORY_V2))],
    ),
    call(
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "Lists processes with a context on a GPU, by the ABI of _v2.",
        RUNNING_PROCESSES,
    ),
    call("nvmlDeviceGetComputeRunningProcesses_v3", "Lists processes with a context on a GPU.", RUNNING_PROCESSES),
    call(
        "nvmlDeviceGetComputeMode",
        "Reads the compute mode of a GPU (0 default, 2 prohibited, 3 exclusive process).",
        &[handle("gpu", "gpu"), out("mode", Output::U32)],
    ),
    call(
        "nvmlDeviceGetBAR1MemoryInfo",
        "Reads the window through which the host reaches a GPU's memory.",
        &[handle("gpu", "gpu"), out("memory", Output::Struct(&NVML_BAR1_MEMORY))],
    ),
];
