//! Memory that a process exports to others, and memory of others that it has open.

use crate::machine::ipc_record::Record;
use crate::model::address::{DeviceMemory, DeviceMemoryKind};
use std::collections::BTreeMap;

/// What a handle starts with.
const MARK: u64 = 0x5349_4d5f_4950_4331;

/// `cudaIpcMemHandle_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Handle([u64; 8]);

impl Handle {
    /// The handle of a piece of memory, of the process with this identity.
    pub fn new(exporter: u64, address: u64, bytes: u64) -> Self {
        Self([MARK, exporter, address, bytes, 0, 0, 0, 0])
    }

    /// The exporter, the address there and the size; `None` for a handle that is not ours.
    pub fn parts(self) -> Option<(u64, u64, u64)> {
        let [mark, exporter, address, bytes, ..] = self.0;
        (mark == MARK).then_some((exporter, address, bytes))
    }
}

/// Both, by address.
#[derive(Default)]
pub struct Ipc {
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

impl Ipc {
    /// The record of memory that this process exports or has open.
    pub fn record(&self, base: u64) -> Option<&'static Record> {
        self.exported
            .get(&base)
            .copied()
            .or_else(|| self.imported.get(&base).map(|import| import.record))
    }

    /// The opened memory that an address lies in.
    pub fn find(&self, address: u64) -> Option<DeviceMemory> {
        let (base, import) = self.imported.range(..=address).next_back()?;
        let found = DeviceMemory {
            base: *base,
            bytes: import.bytes,
            device: import.device,
            kind: DeviceMemoryKind::Imported,
        };
        found.contains(address).then_some(found)
    }

    /// Whether memory is exported.
    pub fn is_exported(&self, base: u64) -> bool {
        self.exported.contains_key(&base)
    }

    /// Notes the record of memory that is exported from now on.
    pub fn export(&mut self, base: u64, record: &'static Record) {
        self.exported.insert(base, record);
    }

    /// Notes that memory was freed, which gives back so many bytes once no process has it open.
    pub fn freed(&mut self, base: u64, bytes: u64) {
        if let Some(record) = self.exported.remove(&base) {
            record.free(bytes);
        }
    }

    /// Whether the memory of a record is open.
    pub fn is_open(&self, record: &Record) -> bool {
        self.imported
            .values()
            .any(|import| std::ptr::eq(import.record, record))
    }

    /// Notes memory that was opened on a device, and returns its address.
    pub fn import(&mut self, record: &'static Record, bytes: u64, device: usize) -> u64 {
        let base = FIRST_IMPORT + self.opened_bytes;
        self.opened_bytes += bytes.next_multiple_of(2 << 20);
        self.imported.insert(
            base,
            Import {
                record,
                bytes,
                device,
            },
        );
        base
    }

    /// Forgets opened memory.
    pub fn close(&mut self, base: u64) -> Option<&'static Record> {
        self.imported.remove(&base).map(|import| import.record)
    }
}
