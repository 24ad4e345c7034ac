//! Bounded reads of untrusted files.

pub(crate) mod packed;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The whole of a regular file of at most this many bytes.
///
/// What is not a regular file is not even opened: a pipe would wait for a writer that may never come, and a device may have
/// no end. The size that the system states is not believed either, because a file can grow while it is read.
pub(crate) fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    whole(File::open(path)?, most_bytes)
}

/// The path of standard input.
pub(crate) const STDIN: &str = "-";

/// A document of at most this many bytes when it is unpacked: a regular file, or standard input where the path is
/// `-`; either may be compressed.
pub(crate) fn read_document(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    if path == Path::new(STDIN) {
        return whole(packed::unpacked(io::stdin())?, most_bytes);
    }
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    whole(packed::unpacked(File::open(path)?)?, most_bytes)
}

fn whole(reader: impl Read, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let most = if most_bytes >= 1 << 20 {
            format!("{} MiB", most_bytes >> 20)
        } else {
            format!("{} KiB", most_bytes >> 10)
        };
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most}")));
    }
    Ok(bytes)
}

/// As [`read`], for text.
pub(crate) fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, most_bytes)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![b'x'; 2048]).unwrap();
        assert_eq!(read(file.path(), 2048).unwrap().len(), 2048);
        fs::write(file.path(), vec![b'x'; 1025]).unwrap();
        assert_eq!(read(file.path(), 1024).unwrap_err().to_string(), "it is larger than 1 KiB");
        for path in ["/dev/zero", "/"] {
            assert_eq!(read(Path::new(path), 1024).unwrap_err().to_string(), "it is not a regular file");
        }
        fs::write(file.path(), b"\xff").unwrap();
        assert!(read_text(file.path(), 1024).unwrap_err().to_string().contains("utf-8"));
    }
}
