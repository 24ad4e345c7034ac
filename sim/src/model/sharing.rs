//! Memory of other processes: `cudaIpcGetMemHandle` and what opens it.

use crate::c;
use crate::model::context::Owner;
use crate::model::exchange::{Piece, Record};
use crate::model::memory::{Found, Kind};
use crate::model::process::Process;
use crate::model::status::*;
use crate::model::table::Identity;
use std::collections::BTreeMap;

/// What a handle starts with.
const MARK: u64 = 0x5349_4d5f_4950_4331;

/// `cudaIpcMemHandle_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Handle(pub [u64; 8]);

/// Memory that this process shows to others, and memory of others that it has open, by address.
#[derive(Default)]
pub struct Shared {
    exported: BTreeMap<u64, &'static Record>,
    imported: BTreeMap<u64, Import>,
    opened_bytes: u64,
}

struct Import {
    record: &'static Record,
    bytes: u64,
    device: usize,
}

/// Opened memory gets addresses from here on, below the reserved ranges.
const FIRST_IMPORT: u64 = 1 << 40;

impl Shared {
    fn record(&self, base: u64) -> Option<&'static Record> {
        self.exported.get(&base).copied().or_else(|| self.imported.get(&base).map(|import| import.record))
    }

    /// The first word of a piece that processes share; `None` for a piece that they do not.
    pub fn word(&self, base: u64) -> Option<Option<u64>> {
        self.record(base).map(Record::word)
    }

    /// Writes it; `false` where there is no such piece.
    pub fn set_word(&self, base: u64, word: Option<u64>) -> bool {
        self.record(base).inspect(|record| record.set_word(word)).is_some()
    }

    /// The opened memory that an address lies in.
    pub fn find(&self, address: u64) -> Option<Found> {
        let (base, import) = self.imported.range(..=address).next_back()?;
        let found = Found { base: *base, bytes: import.bytes, device: import.device, kind: Kind::Imported };
        (address - base < import.bytes).then_some(found)
    }

    /// Exported memory was freed, which gives back so many bytes once nobody has it open.
    pub fn freed(&mut self, base: u64, bytes: u64) {
        if let Some(record) = self.exported.remove(&base) {
            record.free(bytes);
        }
    }
}

impl Process {
    /// `cudaIpcGetMemHandle`: for plain memory only (process/ipc-of-other-memory).
    pub fn export(&mut self, address: u64) -> Outcome<Handle> {
        let node = self.node()?;
        let found = self.device_memory(address).ok_or(INVALID_VALUE)?;
        if !matches!(found.kind, Kind::Plain { .. }) {
            return Err(INVALID_VALUE);
        }
        if found.base != address {
            return Err(SIM_NOT_MODELLED);
        }
        let owner = Identity::of(c::pid()).ok_or(SIM_NOT_MODELLED)?;
        let device = &self.devices[found.device];
        if !self.shared.exported.contains_key(&address) {
            let piece = Piece { gpu: device.gpu, address, bytes: device.blocks.block_bytes(address) };
            let word = self.contents.word(address);
            let record = node.table.export(owner, piece).ok_or(SIM_NOT_MODELLED)?;
            record.set_word(word);
            self.shared.exported.insert(address, record);
        }
        Ok(Handle([MARK, owner.number(), address, found.bytes, 0, 0, 0, 0]))
    }

    /// `cudaIpcOpenMemHandle` in a context. Memory of a GPU that the mask hides can be opened, and no context is made on its GPU
    /// (visibility/ipc-across-the-mask, context/ipc-open-makes-one-on-the-exporter).
    pub fn import(&mut self, handle: Handle, owner: Owner) -> Outcome<u64> {
        let node = self.node()?;
        let [mark, exporter, address, bytes, ..] = handle.0;
        if mark != MARK {
            return Err(SIM_NOT_MODELLED);
        }
        let own = Identity::of(c::pid()).ok_or(SIM_NOT_MODELLED)?;
        if exporter == own.number() {
            // Measured (process/ipc-handle-of-its-own).
            return Err(INVALID_CONTEXT);
        }
        // What an exporter leaves that nobody had open is gone with it (process/killed-exporter).
        let record = node.table.exported(exporter, address).filter(|_| Identity::is(exporter)).ok_or(INVALID_HANDLE)?;
        let there = &node.machine.gpus[record.gpu()];
        let here = self.devices[owner.device].gpu;
        let reachable =
            here == record.gpu() || (there.peer_group != 0 && there.peer_group == node.machine.gpus[here].peer_group);
        let again = self.shared.imported.values().any(|import| std::ptr::eq(import.record, record));
        if record.is_freed() || !reachable || again || !record.open(own, &Identity::is) {
            return Err(SIM_NOT_MODELLED);
        }
        let base = FIRST_IMPORT + self.shared.opened_bytes;
        self.shared.opened_bytes += bytes.next_multiple_of(2 << 20);
        self.shared.imported.insert(base, Import { record, bytes, device: owner.device });
        Ok(base)
    }

    /// Whether an address is another process's memory.
    pub fn is_imported(&self, address: u64) -> bool {
        self.shared.find(address).is_some()
    }

    /// `cudaIpcCloseMemHandle`.
    pub fn close_import(&mut self, base: u64) -> Outcome {
        let import = self.shared.imported.remove(&base).ok_or(SIM_NOT_MODELLED)?;
        import.record.close(Identity::of(c::pid()).ok_or(SIM_NOT_MODELLED)?);
        Ok(())
    }
}
