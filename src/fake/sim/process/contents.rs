//! Fills and copies: what they leave in the memory of a process.

use crate::model::address::{DeviceMemory, Location};
use crate::model::contents::WORD_BYTES;
use crate::model::status::*;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// The first word of a piece, which other processes may share.
    fn word_of(&self, base: u64) -> Option<u64> {
        self.ipc
            .record(base)
            .map_or_else(|| self.contents.word(base), |record| record.word())
    }

    /// Notes what the first word of a piece is from now on; `None` where it is not known.
    pub fn set_word(&mut self, base: u64, word: Option<u64>) {
        match self.ipc.record(base) {
            Some(record) => record.set_word(word),
            None => self.contents.set_word(base, word),
        }
    }

    /// A piece that holds so many bytes from an address on.
    fn within(&self, address: u64, bytes: u64) -> Outcome<DeviceMemory> {
        let found = self.device_memory(address).ok_or(INVALID_VALUE)?;
        let fits = (address - found.base)
            .checked_add(bytes)
            .is_some_and(|end| end <= found.bytes);
        if fits { Ok(found) } else { Err(INVALID_VALUE) }
    }

    fn is_host(&self, address: u64) -> bool {
        matches!(self.location_of(address), Location::Host(..))
    }

    /// Fills memory of a device with a byte, by work on a stream of a device.
    pub fn fill(
        &mut self,
        device: usize,
        address: u64,
        value: u8,
        bytes: u64,
        in_order: bool,
    ) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        if self.is_host(address) {
            // Managed memory would have to move to the device first, and what a fill does to host memory is not known.
            return Err(SIM_NOT_MODELLED);
        }
        let found = self.within(address, bytes)?;
        if found.device != device {
            // Measured for the call in stream order alone (device/null-stream-follows-the-thread).
            return Err(if in_order {
                INVALID_VALUE
            } else {
                SIM_NOT_MODELLED
            });
        }
        // What an exit makes of a fill that waits behind a kernel shows in memory of another process alone; it is not
        // modelled, so the memory is unknown from then on (process/exit-before-the-kernel-ends).
        let waits = self.ipc.record(found.base).is_some() && self.is_idle() == Err(NOT_READY);
        let word = (!waits).then(|| u64::from_ne_bytes([value; 8]));
        self.write(found.base, address, bytes, word);
        Ok(())
    }

    fn write(&mut self, base: u64, address: u64, bytes: u64, word: Option<u64>) {
        if address == base && bytes >= WORD_BYTES {
            self.set_word(base, word);
        } else if address - base < WORD_BYTES {
            self.set_word(base, None);
        }
    }

    /// Copies from plain host memory to device memory, of any device.
    pub fn store(&mut self, to: u64, bytes: u64, word: Option<u64>) -> Outcome {
        if self.is_host(to) || self.device_memory(to).is_none() {
            return Err(SIM_NOT_MODELLED);
        }
        let piece = self.within(to, bytes)?;
        self.write(piece.base, to, bytes, word);
        Ok(())
    }

    /// Copies from device memory to device memory, of one device or of two; peer access is not needed for it
    /// (device/copies-need-no-peer-access).
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        if [to, from]
            .into_iter()
            .any(|address| self.is_host(address) || self.device_memory(address).is_none())
        {
            // What is in host memory is not modelled.
            return Err(SIM_NOT_MODELLED);
        }
        let (to_piece, from_piece) = (self.within(to, bytes)?, self.within(from, bytes)?);
        let word = if from == from_piece.base {
            self.word_of(from)
        } else {
            None
        };
        self.write(to_piece.base, to, bytes, word);
        Ok(())
    }

    /// Reads the first word of a piece; nothing else is kept.
    pub fn read_word(&self, address: u64, bytes: u64) -> Outcome<u64> {
        let found = self.within(address, bytes)?;
        let known = if address == found.base && bytes == WORD_BYTES {
            self.word_of(address)
        } else {
            None
        };
        known.ok_or(SIM_NOT_MODELLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sample::{primary, ready};

    #[test]
    fn what_was_written_is_read_and_copied() {
        let mut process = ready();
        let owner = primary(&mut process, 0);
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
        process.store(one, 8, Some(9)).unwrap();
        assert_eq!(process.read_word(one, 8), Ok(9));
        process.store(one, 4, None).unwrap();
        assert_eq!(process.read_word(one, 8), Err(SIM_NOT_MODELLED));
        assert_eq!(process.store(one, 8192, Some(9)), Err(INVALID_VALUE));
        process.free(one).unwrap();
        let three = process.allocate(owner, 4096).unwrap();
        assert_eq!(process.read_word(three, 8), Err(SIM_NOT_MODELLED));
    }
}
