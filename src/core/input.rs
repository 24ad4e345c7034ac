//! Bounded reads of untrusted files.

pub(crate) mod packed;

use std::fs::{self, File};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

/// Returns the content of a regular file of at most `most_bytes`.
///
/// Other files are not opened: a pipe would wait for a writer that may never come, and a device may have no end. The
/// size that the system reports is not trusted, because a file can grow while it is read.
pub(crate) fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_limited(open(path)?, most_bytes)
}

const PIECE_BYTES: usize = 1 << 16;
/// The path of standard input.
pub const STDIN: &str = "-";

/// The suffix of a packed document.
pub const PACKED: &str = ".zst";

/// Returns the path of a document. If no file has this name, it is the path of the compressed file: `report.json.zst`
/// for `report.json`. So a caller need not know whether a document is compressed.
pub fn document_path(path: &Path) -> PathBuf {
    let mut packed = path.as_os_str().to_owned();
    packed.push(PACKED);
    let packed = PathBuf::from(packed);
    if !path.exists() && packed.is_file() {
        return packed;
    }
    path.to_path_buf()
}

/// Returns the content of a document, at most `most_bytes` after unpacking: a regular file, or standard input for the
/// path `-`. Either may be compressed.
pub(crate) fn read_document(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    if path == Path::new(STDIN) {
        return read_limited(packed::unpack_reader(io::stdin())?, most_bytes);
    }
    read_limited(open_document(path)?, most_bytes)
}

/// Returns a reader of a document that may be compressed, which must be a regular file.
///
/// # Errors
/// Returns an error if the file cannot be opened, or its first bytes cannot be read.
pub fn open_document(path: &Path) -> io::Result<Box<dyn BufRead>> {
    packed::unpack_reader(open(&document_path(path))?)
}

/// Returns the SHA-256 of a document's unpacked content.
///
/// # Errors
/// Returns an error if the document cannot be read.
pub fn document_sha256(path: &Path) -> io::Result<[u8; 32]> {
    let mut content = open_document(path)?;
    let mut hash = hmac_sha256::Hash::new();
    loop {
        let piece = content.fill_buf()?;
        let read = piece.len();
        if read == 0 {
            return Ok(hash.finalize());
        }
        hash.update(piece);
        content.consume(read);
    }
}

/// Opens regular files only: opening a pipe would wait for a writer that may never come.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    File::open(path)
}

fn read_limited(reader: impl Read, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let most = if most_bytes >= 1 << 20 {
            format!("{} MiB", most_bytes >> 20)
        } else {
            format!("{} KiB", most_bytes >> 10)
        };
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {most}"),
        ));
    }
    Ok(bytes)
}

/// Reads a text to its end, and returns its last `most_bytes`. Each piece is passed to `each` as it arrives.
///
/// # Errors
/// Returns an error if the text cannot be read.
pub fn read_tail(
    mut reader: impl Read,
    most_bytes: usize,
    mut each: impl FnMut(&[u8]),
) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut kept = Vec::new();
    loop {
        let read = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => piece.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        each(read);
        kept.extend_from_slice(read);
        // Not for every piece, because the kept bytes have to be moved.
        if kept.len() > 2 * most_bytes {
            kept.drain(..kept.len() - most_bytes);
        }
    }
    kept.drain(..kept.len().saturating_sub(most_bytes));
    Ok(kept)
}

/// Returns the content of a regular file as text, like `read`.
pub fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, most_bytes)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_long_text_is_kept() {
        let text: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let mut seen = Vec::new();
        let kept = read_tail(text.as_slice(), 1000, |piece| seen.extend_from_slice(piece)).unwrap();
        assert!(seen == text && kept == text[text.len() - 1000..]);
        assert_eq!(read_tail(&b"short"[..], 1000, |_| {}).unwrap(), b"short");
    }

    #[test]
    fn a_packed_document_is_found_by_its_plain_name() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("report.json");
        assert_eq!(document_path(&plain), plain);
        assert_eq!(
            read_document(&plain, 10).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let packed = folder.path().join("report.json.zst");
        fs::write(&packed, packed::tests::zstd(b"packed")).unwrap();
        assert_eq!(document_path(&plain), packed);
        assert_eq!(read_document(&plain, 10).unwrap(), b"packed");
        fs::write(&plain, "plain").unwrap();
        assert_eq!(read_document(&plain, 10).unwrap(), b"plain");
    }

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![b'x'; 2048]).unwrap();
        assert_eq!(read(file.path(), 2048).unwrap().len(), 2048);
        fs::write(file.path(), vec![b'x'; 1025]).unwrap();
        assert_eq!(
            read(file.path(), 1024).unwrap_err().to_string(),
            "it is larger than 1 KiB"
        );
        for path in ["/dev/zero", "/"] {
            assert_eq!(
                read(Path::new(path), 1024).unwrap_err().to_string(),
                "it is not a regular file"
            );
        }
        fs::write(file.path(), b"\xff").unwrap();
        assert!(
            read_text(file.path(), 1024)
                .unwrap_err()
                .to_string()
                .contains("utf-8")
        );
    }
}
