//! The injection library that a scenario can name in `CUDA_INJECTION64_PATH`. Its source is `hook/`; it is embedded here as bytes.

use std::io;
use std::path::Path;

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_hook.so"));

/// The variable of which libcuda loads a library when it is initialised.
pub const VARIABLE: &str = "CUDA_INJECTION64_PATH";

/// The library's name. It lies beside the links that a worker finds first, so the loader finds it by
/// its name, and no scenario needs a path of this machine.
pub const NAME: &str = "libcuda_pitfalls_hook.so";

/// The variable whose value the hook makes the mask.
pub const MASK: &str = "CUDA_PITFALLS_HOOK_MASK";

/// Writes the library into a folder of links. A process that has an older one mapped keeps it whole.
///
/// # Errors
/// The file could not be written.
pub fn put(folder: &Path) -> io::Result<()> {
    let fresh = folder.join(format!("{NAME}.new"));
    std::fs::write(&fresh, LIBRARY)?;
    std::fs::rename(&fresh, folder.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_the_hook_and_reads_the_variable() {
        let holds = |text: &str| LIBRARY.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(["InitializeInjection", MASK, "CUDA_VISIBLE_DEVICES"].into_iter().all(holds));
        assert!(LIBRARY.len() < 64 << 10, "{}", LIBRARY.len());
    }
}
