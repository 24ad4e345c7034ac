//! The container into which nvcc puts binaries, for a binary that was linked at run time.
//!
//! A container has a header and an entry, with its own header, for each piece of code. The format is not documented;
//! these are the fields that nvFatbin writes for a single binary.

/// The first four bytes of the container, as a number.
const MAGIC: u32 = 0xba55_ed50;
const CONTAINER_HEADER: u16 = 16;
const ENTRY_HEADER: u32 = 64;
/// The kind of an entry that is a binary rather than PTX.
const ELF: u16 = 2;
/// The version of an entry, and of the binary in it, as nvFatbin writes it.
const ENTRY_VERSION: u16 = 0x101;
const BINARY_VERSION: [u16; 2] = [7, 1];
/// The flags for 64-bit addresses and Linux.
const FLAGS: u64 = 0x11;

pub(super) fn wrap_binary(elf: &[u8]) -> Vec<u8> {
    let padded = elf.len().next_multiple_of(8);
    let mut bytes =
        Vec::with_capacity(usize::from(CONTAINER_HEADER) + ENTRY_HEADER as usize + padded);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(CONTAINER_HEADER.to_le_bytes());
    bytes.extend((u64::from(ENTRY_HEADER) + padded as u64).to_le_bytes());
    bytes.extend(ELF.to_le_bytes());
    bytes.extend(ENTRY_VERSION.to_le_bytes());
    bytes.extend(ENTRY_HEADER.to_le_bytes());
    bytes.extend((padded as u64).to_le_bytes());
    // The entry is not compressed.
    bytes.extend([0; 8]);
    bytes.extend(BINARY_VERSION.iter().flat_map(|part| part.to_le_bytes()));
    bytes.extend(binary_architecture(elf).to_le_bytes());
    // The entry has no name.
    bytes.extend([0; 8]);
    bytes.extend(FLAGS.to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend(elf);
    bytes.resize(bytes.len() + padded - elf.len(), 0);
    bytes
}

/// Returns the GPU architecture of a binary, such as 90 for compute capability 9.0: the lowest byte of the flags in the
/// ELF header or, since version 8 of the ABI, the byte above it.
fn binary_architecture(elf: &[u8]) -> u32 {
    const ABI_VERSION: usize = 8;
    const FLAGS: usize = 48;
    let place = FLAGS + usize::from(elf.get(ABI_VERSION).is_some_and(|version| *version >= 8));
    elf.get(place).copied().map_or(0, u32::from)
}

/// Returns the size of a binary in bytes, according to its own headers; `None` if they are not those of a 64-bit ELF
/// file. `byte` reads the byte at an offset. It reads only offsets that the headers read so far declare.
pub(super) fn binary_length(byte: impl Fn(usize) -> u8) -> Option<usize> {
    let number = |at: usize, bytes: usize| {
        (0..bytes)
            .rev()
            .fold(0, |sum, place| sum << 8 | usize::from(byte(at + place)))
    };
    if [byte(0), byte(1), byte(2), byte(3), byte(4)] != [0x7f, b'E', b'L', b'F', 2] {
        return None;
    }
    let (programs, sections) = (number(32, 8), number(40, 8));
    let programs_end = programs.checked_add(number(54, 2) * number(56, 2))?;
    let section_size = number(58, 2);
    let section_count = number(60, 2);
    let mut end = programs_end.max(sections.checked_add(section_size * section_count)?);
    for section in (0..section_count).map(|section| sections + section * section_size) {
        // A section of this type has no bytes in the file.
        const NOBITS: usize = 8;
        if number(section + 4, 4) != NOBITS {
            end = end.max(number(section + 24, 8).checked_add(number(section + 32, 8))?);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf() -> Vec<u8> {
        let mut bytes = vec![0u8; 72 + 2 * 64];
        bytes[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0x33, 8]);
        bytes[40] = 72;
        bytes[48..50].copy_from_slice(&[2, 90]);
        bytes[58] = 64;
        bytes[60] = 2;
        bytes[72 + 64 + 4] = 1;
        bytes[72 + 64 + 24] = 64;
        bytes[72 + 64 + 32] = 5;
        bytes
    }

    #[test]
    fn a_binary_is_as_long_as_its_headers_say() {
        let elf = elf();
        assert_eq!(binary_length(|at| elf[at]), Some(elf.len()));
        let mut behind = elf.clone();
        behind[72 + 64 + 24] = 250;
        assert_eq!(binary_length(|at| behind[at]), Some(255));
        behind[72 + 64 + 4] = 8;
        assert_eq!(binary_length(|at| behind[at]), Some(elf.len()));
        assert_eq!(binary_length(|_| 0), None);
    }

    #[test]
    fn the_container_names_the_gpu_and_holds_the_binary() {
        let elf = elf();
        let bytes = wrap_binary(&elf[..elf.len() - 3]);
        assert_eq!(bytes[..8], [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0]);
        assert_eq!(bytes.len(), 80 + elf.len());
        assert_eq!(
            usize::from(bytes[8]) | usize::from(bytes[9]) << 8,
            bytes.len() - 16
        );
        assert_eq!(bytes[16 + 28], 90);
        assert_eq!(bytes[80..80 + 5], elf[..5]);
        let mut old = elf.clone();
        old[8] = 7;
        assert_eq!(binary_architecture(&old), 2);
    }
}
