//! What is in device memory: the first eight bytes of each piece, where they are known.

use crate::model::behaviour::FRESH_MEMORY_IS_ZERO;
use crate::model::memory::Found;
use crate::model::process::Process;
use crate::model::status::*;
use std::collections::BTreeMap;

/// The word that is kept of each piece.
const WORD_BYTES: u64 = 8;

/// The first word of every piece, by address.
#[derive(Default)]
pub struct Contents {
    words: BTreeMap<u64, Option<u64>>,
    /// Memory was given back, and what is handed out next may have been in use.
    reused: bool,
}

impl Contents {
    /// Notes a piece of which the text said what is in it, or not.
    pub fn place(&mut self, base: u64, bytes: u64, word: Option<u64>) {
        self.words.insert(base, word.filter(|_| bytes >= WORD_BYTES));
    }

    /// Notes memory that was just handed out.
    pub fn fresh(&mut self, base: u64) {
        let known = FRESH_MEMORY_IS_ZERO && !self.reused;
        self.words.insert(base, known.then_some(0));
    }

    /// Notes memory that was given back.
    pub fn forget(&mut self, base: u64) {
        self.words.remove(&base);
        self.reused = true;
    }

    /// The first word of a piece.
    pub fn word(&self, base: u64) -> Option<u64> {
        self.words.get(&base).copied().flatten()
    }
}

impl Process {
    /// The first word of a piece, be it this process's or another's.
    fn word_of(&self, base: u64) -> Option<u64> {
        self.shared.word(base).unwrap_or_else(|| self.contents.word(base))
    }

    /// Writes it, or forgets what it was.
    pub fn set_word(&mut self, base: u64, word: Option<u64>) {
        if !self.shared.set_word(base, word) {
            self.contents.words.insert(base, word);
        }
    }

    /// A piece that holds so many bytes from an address on.
    fn within(&self, address: u64, bytes: u64) -> Outcome<Found> {
        let found = self.device_memory(address).ok_or(INVALID_VALUE)?;
        let fits = (address - found.base).checked_add(bytes).is_some_and(|end| end <= found.bytes);
        if fits { Ok(found) } else { Err(INVALID_VALUE) }
    }

    /// Fills memory of a device with a byte, by work on a stream of a device.
    pub fn fill(&mut self, device: usize, address: u64, value: u8, bytes: u64, in_order: bool) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        if matches!(self.place_of(address), crate::model::memory::Place::Host(..)) {
            // Managed memory would have to move to the device first, and what a fill does to host memory is not known.
            return Err(SIM_NOT_MODELLED);
        }
        let found = self.within(address, bytes)?;
        if found.device != device {
            // Measured for the call in stream order alone (device/null-stream-follows-the-thread).
            return Err(if in_order { INVALID_VALUE } else { SIM_NOT_MODELLED });
        }
        self.write(found.base, address, bytes, Some(u64::from_ne_bytes([value; 8])));
        Ok(())
    }

    fn write(&mut self, base: u64, address: u64, bytes: u64, word: Option<u64>) {
        if address == base && bytes >= WORD_BYTES {
            self.set_word(base, word);
        } else if address - base < WORD_BYTES {
            self.set_word(base, None);
        }
    }

    /// Copies from device memory to device memory, of one device or of two; peer access is not needed for it
    /// (device/copies-need-no-peer-access).
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        let is_host = |address| matches!(self.place_of(address), crate::model::memory::Place::Host(..));
        if is_host(to) || is_host(from) || self.device_memory(to).is_none() || self.device_memory(from).is_none() {
            // The host's memory is not looked into.
            return Err(SIM_NOT_MODELLED);
        }
        let (to_piece, from_piece) = (self.within(to, bytes)?, self.within(from, bytes)?);
        let word = if from == from_piece.base { self.word_of(from) } else { None };
        self.write(to_piece.base, to, bytes, word);
        Ok(())
    }

    /// Reads the first word of a piece; nothing else is kept.
    pub fn read_word(&self, address: u64, bytes: u64) -> Outcome<u64> {
        let found = self.within(address, bytes)?;
        let known = if address == found.base && bytes == WORD_BYTES { self.word_of(address) } else { None };
        known.ok_or(SIM_NOT_MODELLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::process::sample::ready;

    #[test]
    fn what_was_written_is_read_and_copied() {
        let mut process = ready();
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        let [one, two] = [0, 1].map(|_| process.allocate(owner, 4096).unwrap());
        assert_eq!(process.read_word(one, 8), Ok(0));
        process.fill(0, one, 7, 4096, true).unwrap();
        process.copy(two, one, 4096).unwrap();
        assert_eq!(process.read_word(two, 8), Ok(0x0707_0707_0707_0707));
        process.fill(0, one, 1, 4, true).unwrap();
        assert_eq!(process.read_word(one, 8), Err(SIM_NOT_MODELLED));
        process.fill(0, two + 8, 1, 8, true).unwrap();
        assert_eq!(process.read_word(two, 8), Ok(0x0707_0707_0707_0707));
        assert_eq!(process.fill(0, two, 1, 8192, true), Err(INVALID_VALUE));
        assert_eq!(process.fill(1, two, 1, 4096, true), Err(INVALID_VALUE));
        assert_eq!(process.copy(two, 0x1000, 8), Err(SIM_NOT_MODELLED));
        process.free(one).unwrap();
        let three = process.allocate(owner, 4096).unwrap();
        assert_eq!(process.read_word(three, 8), Err(SIM_NOT_MODELLED));
    }
}
