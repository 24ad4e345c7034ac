//! Running under a trace: a run that is traced passes the trace's variables on to its workers, so that they are traced
//! too. Nothing else of the caller's environment reaches a worker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::forwarding;

/// The variable with the folder of the trace that this process belongs to (src/fake/shim/preload.rs).
pub const VARIABLE: &str = "CUDA_PITFALLS_TRACED";

/// The folder of the forwarding libcuda, below that of the trace.
pub const CUDA_FOLDER: &str = "cuda";

/// The content of the hook library. It is the same for every trace, so the file can stay after the end of a trace: the
/// loader complains about a missing library in `LD_PRELOAD`.
pub use cuda_pitfalls_fake::PRELOAD as HOOK;

/// The file name of the hook library.
const PRELOAD_NAME: &str = "libcuda_pitfalls_preload.so";

/// The name of the hook library's directory, derived from the hash of its content.
static HOOK_FOLDER: LazyLock<String> = LazyLock::new(|| {
    let digits: String = hmac_sha256::Hash::hash(HOOK)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("hook-{digits}")
});

/// Returns the path of the hook library. It is next to the trace's directory rather than in it, because it stays after
/// the end of the trace.
pub fn hook_beside(folder: &Path) -> Option<PathBuf> {
    folder
        .parent()
        .map(|place| place.join(HOOK_FOLDER.as_str()).join(PRELOAD_NAME))
}

/// Returns the directory of the trace, if this process is traced.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os(VARIABLE)
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
}

/// Returns the path of the forwarding libcuda; `None` if this process is not traced or does not use it.
pub fn libcuda() -> Option<PathBuf> {
    folder()
        .map(|folder| folder.join(CUDA_FOLDER).join(forwarding::NAME))
        .filter(|path| path.exists())
}

/// Returns the variables, in addition to [`VARIABLE`], that a worker needs to be traced too.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let hook = folder()
        .and_then(|folder| hook_beside(&folder))
        .filter(|hook| hook.exists());
    let Some(hook) = hook.map(PathBuf::into_os_string) else {
        return Vec::new();
    };
    vec![
        (OsString::from("LD_PRELOAD"), hook.clone()),
        (OsString::from("CUDA_INJECTION64_PATH"), hook),
    ]
}

/// Returns `true` if a file is one of the trace's own libraries.
pub(crate) fn is_ours(path: &Path) -> bool {
    let Some(folder) = folder() else { return false };
    path.starts_with(folder.join(CUDA_FOLDER)) || Some(path) == hook_beside(&folder).as_deref()
}
