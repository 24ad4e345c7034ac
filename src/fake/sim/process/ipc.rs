//! Memory that processes share: `cudaIpcGetMemHandle` and what opens it.

use crate::machine::identity::Identity;
use crate::machine::ipc_record::Export;
use crate::model::address::DeviceMemoryKind;
use crate::model::context::ContextOwner;
use crate::model::ipc::Handle;
use crate::model::status::*;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// `cudaIpcGetMemHandle`: for plain memory only (process/ipc-of-other-memory).
    pub fn export(&mut self, address: u64) -> Outcome<Handle> {
        let table = self.machine()?.table;
        let found = self.device_memory(address).ok_or(INVALID_VALUE)?;
        if !matches!(found.kind, DeviceMemoryKind::Plain { .. }) {
            return Err(INVALID_VALUE);
        }
        if found.base != address {
            return Err(SIM_NOT_MODELLED);
        }
        let owner = Identity::own().ok_or(SIM_NOT_MODELLED)?;
        if !self.ipc.is_exported(address) {
            let device = &self.devices[found.device];
            let export = Export {
                gpu: device.gpu,
                address,
                bytes: device.blocks.block_bytes(address),
            };
            let word = self.contents.word(address);
            let record = table.export(owner, export).ok_or(SIM_NOT_MODELLED)?;
            record.set_word(word);
            self.ipc.export(address, record);
        }
        Ok(Handle::new(owner.number(), address, found.bytes))
    }

    /// `cudaIpcOpenMemHandle` in a context. Memory of a GPU that the mask hides can be opened, and no context is made
    /// on its GPU (visibility/ipc-across-the-mask, context/ipc-open-makes-one-on-the-exporter).
    pub fn import(&mut self, handle: Handle, owner: ContextOwner) -> Outcome<u64> {
        let machine = self.machine()?;
        let (exporter, address, bytes) = handle.parts().ok_or(SIM_NOT_MODELLED)?;
        let own = Identity::own().ok_or(SIM_NOT_MODELLED)?;
        if exporter == own.number() {
            // Measured (process/ipc-handle-of-its-own).
            return Err(INVALID_CONTEXT);
        }
        // Memory of an exporter that ended is gone with it, unless a process had it open (process/killed-exporter).
        let record = machine
            .table
            .exported(exporter, address)
            .filter(|_| Identity::is_alive(exporter));
        let record = record.ok_or(INVALID_HANDLE)?;
        let here = self.devices[owner.device].gpu;
        let reachable =
            here == record.gpu() || machine.gpu(record.gpu()).is_peer_of(machine.gpu(here));
        if record.is_freed()
            || !reachable
            || self.ipc.is_open(record)
            || !record.open(own, &Identity::is_alive)
        {
            return Err(SIM_NOT_MODELLED);
        }
        Ok(self.ipc.import(record, bytes, owner.device))
    }

    /// Whether an address is another process's memory.
    pub fn is_imported(&self, address: u64) -> bool {
        self.ipc.find(address).is_some()
    }

    /// `cudaIpcCloseMemHandle`.
    pub fn close_import(&mut self, base: u64) -> Outcome {
        let record = self.ipc.close(base).ok_or(SIM_NOT_MODELLED)?;
        record.close(Identity::own().ok_or(SIM_NOT_MODELLED)?);
        Ok(())
    }
}
