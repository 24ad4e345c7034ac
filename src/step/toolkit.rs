//! Calls of libraries that come with the toolkit: NVRTC, cuBLAS, cuFFT and NCCL. They are asked the
//! questions of start-up, not those of their own trade.

use super::layout::NCCL_UNIQUE_ID;
use super::{Kind, Library, Output, StepKind, fixed, handle, int, out, param, row, text};

pub(super) static STEPS: &[StepKind] = &[
    row(
        Library::Nvrtc,
        "nvrtcVersion",
        "Reads the version of NVRTC.",
        &[out("major", Output::Varying), out("minor", Output::Varying)],
    ),
    row(
        Library::Nvrtc,
        "nvrtcCreateProgram",
        "Takes the source of a program.",
        &[
            out("program", Output::Handle("program")),
            text("source"),
            fixed("name", 0),
            fixed("headers_count", 0),
            fixed("headers", 0),
            fixed("include_names", 0),
        ],
    ),
    row(
        Library::Nvrtc,
        "nvrtcCompileProgram",
        "Compiles a program to PTX.",
        &[handle("program", "program"), fixed("options_count", 0), fixed("options", 0)],
    ),
    row(
        Library::Cublas,
        "cublasCreate_v2",
        "Initialises cuBLAS on the current device.",
        &[out("blas", Output::Handle("blas"))],
    ),
    row(Library::Cublas, "cublasDestroy_v2", "Gives up a handle of cuBLAS.", &[handle("blas", "blas")]),
    row(
        Library::Cufft,
        "cufftPlan1d",
        "Plans a complex transform of so many points.",
        &[out("plan", Output::Handle("plan")), int("points"), fixed("type", 0x29), fixed("batch", 1)],
    ),
    row(Library::Cufft, "cufftDestroy", "Gives up a plan.", &[handle("plan", "plan")]),
    row(Library::Nccl, "ncclGetVersion", "Reads the version of NCCL.", &[out("version", Output::Varying)]),
    row(
        Library::Nccl,
        "ncclGetUniqueId",
        "Makes the token by which ranks find one another.",
        &[param("id", Kind::Out(Output::Struct(&NCCL_UNIQUE_ID)))],
    ),
];
