//! Text that may be compressed: gzip, Zstandard, or neither. The first bytes decide, not the name of the file.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The largest window of a Zstandard frame, which has to be kept in memory. `zstd -19` uses 8 MiB.
const MOST_WINDOW_BYTES: u64 = 32 << 20;
const PIECE: usize = 1 << 17;
/// Maximum ratio of unpacked to compressed size, for files that unpack to more than [`ALWAYS_BYTES`]. Reports unpack to
/// 9 to 40 times their size, and many concatenated reports to a hundred times; a higher ratio means a file made to
/// exhaust memory.
const MOST_TIMES: u64 = 500;
/// Number of bytes that may be unpacked from any file, whatever its ratio.
const ALWAYS_BYTES: u64 = 16 << 20;

/// Returns a reader of the unpacked text.
///
/// # Errors
/// Returns an error if the first bytes cannot be read.
pub(crate) fn unpack_reader(packed: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let read_bytes = Rc::new(Cell::new(0));
    let mut packed = BufReader::with_capacity(
        PIECE,
        CountedReader {
            inner: packed,
            read_bytes: Rc::clone(&read_bytes),
        },
    );
    let first = packed.fill_buf()?;
    if first.starts_with(&GZIP) {
        return Ok(limit_size(MultiGzDecoder::new(packed), read_bytes));
    }
    if first.starts_with(&ZSTD) {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MOST_WINDOW_BYTES);
        return Ok(limit_size(
            Zstd {
                packed,
                decoder,
                is_open: false,
            },
            read_bytes,
        ));
    }
    Ok(Box::new(packed))
}

fn limit_size(text: impl Read + 'static, packed_bytes: Rc<Cell<u64>>) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(
        PIECE,
        Bounded {
            text,
            packed_bytes,
            text_bytes: 0,
        },
    ))
}

struct CountedReader<R> {
    inner: R,
    read_bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.read_bytes.set(self.read_bytes.get() + read as u64);
        Ok(read)
    }
}

/// A reader that fails when too much text comes out of a compressed file.
struct Bounded<R> {
    text: R,
    packed_bytes: Rc<Cell<u64>>,
    text_bytes: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(out)?;
        self.text_bytes += read as u64;
        if self.text_bytes > ALWAYS_BYTES + MOST_TIMES * self.packed_bytes.get() {
            let why = format!(
                "it unpacks to more than {} MiB and {MOST_TIMES} times its size; if you trust it, unpack it first",
                ALWAYS_BYTES >> 20
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(read)
    }
}

/// A reader of the concatenated Zstandard frames of a file.
struct Zstd<R> {
    packed: BufReader<R>,
    decoder: FrameDecoder,
    /// `true` if a frame has begun but not ended.
    is_open: bool,
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            if !self.is_open {
                if self.packed.fill_buf()?.is_empty() || out.is_empty() {
                    return Ok(0);
                }
                self.decoder
                    .reset(&mut self.packed)
                    .map_err(|error| zstd_error(&mut self.packed, error))?;
                self.is_open = true;
            }
            let strategy = BlockDecodingStrategy::UptoBytes(PIECE);
            let done = self.decoder.decode_blocks(&mut self.packed, strategy);
            if done.map_err(|error| zstd_error(&mut self.packed, error))? {
                self.is_open = false;
            }
        }
    }
}

/// Returns the decoder's error; if no input is left, the file is truncated.
fn zstd_error<R: Read>(packed: &mut BufReader<R>, error: impl std::fmt::Display) -> io::Error {
    let is_at_its_end = packed.fill_buf().is_ok_and(<[u8]>::is_empty);
    let kind = if is_at_its_end {
        io::ErrorKind::UnexpectedEof
    } else {
        io::ErrorKind::InvalidData
    };
    io::Error::new(kind, format!("it cannot be unpacked: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    pub(crate) fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn read(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        unpack_reader(io::Cursor::new(packed))?.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn compressed_text_is_known_by_its_first_bytes() {
        let text: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7 % 251) as u8).collect();
        for packed in [gzip(&text), zstd(&text), text.clone()] {
            assert!(read(packed).unwrap() == text);
        }
        assert!(read(Vec::new()).unwrap().is_empty());
        // Compressed files that were appended to one another.
        for pack in [gzip, zstd] {
            assert_eq!(
                read([pack(b"one "), pack(b"two")].concat()).unwrap(),
                b"one two"
            );
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_told_from_one_that_is_wrong() {
        let text: Vec<u8> = (0..50_000_u64)
            .flat_map(|at| (at * at).to_le_bytes())
            .collect();
        for pack in [gzip, zstd] {
            let mut packed = pack(&text);
            packed.truncate(packed.len() / 2);
            assert_eq!(
                read(packed).unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof
            );
        }
        let wrong = [&ZSTD[..], &[0xff; 64]].concat();
        assert_ne!(
            read(wrong).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn text_that_is_thousands_of_times_its_size_is_refused_and_the_limit_named() {
        let bomb = zstd(&vec![b'x'; 64 << 20]);
        assert!(bomb.len() < 64 << 10, "{} bytes", bomb.len());
        let error = read(bomb).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(
            error
                .to_string()
                .contains("more than 16 MiB and 500 times its size"),
            "{error}"
        );
        assert_eq!(
            read(gzip(&vec![b'x'; 12 << 20])).unwrap().len(),
            12 << 20,
            "a little may be anything"
        );
    }

    #[test]
    fn a_window_larger_than_memory_is_refused() {
        // A frame header that asks for a window of 3.75 TiB.
        let header = [&ZSTD[..], &[0x00, 0xff], &[0; 16]].concat();
        let error = read(header).unwrap_err().to_string();
        assert!(error.contains("cannot be unpacked"), "{error}");
    }
}
