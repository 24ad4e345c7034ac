//! The injection library that a scenario can name in `CUDA_INJECTION64_PATH`. Its source is `src/fake/hook.rs`.

use std::io;
use std::path::Path;

use cuda_pitfalls_core::scenario::environment::INJECTION_LIBRARY as NAME;
use cuda_pitfalls_fake::INJECTION as LIBRARY;

/// Writes the library into a directory of links. A process that has mapped an older version keeps it unchanged.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write_hook(folder: &Path) -> io::Result<()> {
    let fresh = folder.join(format!("{NAME}.new"));
    std::fs::write(&fresh, LIBRARY)?;
    std::fs::rename(&fresh, folder.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_the_hook_and_reads_the_variable() {
        for text in [
            "InitializeInjection",
            "CUDA_PITFALLS_HOOK_MASK",
            "CUDA_VISIBLE_DEVICES",
        ] {
            assert!(
                LIBRARY
                    .windows(text.len())
                    .any(|part| part == text.as_bytes()),
                "{text}"
            );
        }
        assert!(LIBRARY.len() < 64 << 10, "{}", LIBRARY.len());
    }
}
