//! Reading files whose size somebody else decides, such as those of `/proc`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Returns the first bytes of a file.
///
/// # Errors
/// Returns an error if it cannot be opened or read.
pub fn read_bytes(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut read)?;
    Ok(read)
}

/// Returns the bytes of a file.
///
/// # Errors
/// Returns an error if it cannot be read, or if it has more than `most`: a part would look like the whole.
pub fn read_whole(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let read = read_bytes(path, most + 1)?;
    if read.len() as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(read)
}

/// Returns the beginning of a file as text; an empty one if it cannot be read.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> String {
    let read = read_bytes(path, most).unwrap_or_default();
    String::from_utf8_lossy(&read).into_owned()
}
