//! Running under a trace: a run whose own workers are to be traced hands on to them what the trace put
//! into its environment. Nothing else of the caller's environment reaches a worker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::forwarding;

/// Names the folder of the trace that this process is part of.
pub(crate) const VARIABLE: &str = "CUDA_PITFALLS_TRACED";

/// The folder of the forwarding libcuda below that of the trace, and the hook's file name.
pub(crate) const CUDA_FOLDER: &str = "cuda";
pub(crate) const PRELOAD_NAME: &str = "libcuda_pitfalls_preload.so";

/// The folder of the trace, if this process is traced.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// The forwarding libcuda, if this process is traced and there is one.
pub(crate) fn libcuda() -> Option<PathBuf> {
    folder().map(|folder| folder.join(CUDA_FOLDER).join(forwarding::NAME)).filter(|path| path.exists())
}

/// What a worker needs in its environment, beside [`VARIABLE`], so that it is traced too.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let Some(folder) = folder() else { return Vec::new() };
    let hook = folder.join(PRELOAD_NAME).into_os_string();
    vec![(OsString::from("LD_PRELOAD"), hook.clone()), (OsString::from("CUDA_INJECTION64_PATH"), hook)]
}

/// Whether a file is one of the trace's own libraries.
pub(crate) fn is_ours(path: &Path) -> bool {
    folder().is_some_and(|folder| path.starts_with(folder))
}
