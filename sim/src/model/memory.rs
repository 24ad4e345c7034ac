//! Memory calls: device, stream-ordered, managed and pinned.

use crate::c;
use crate::model::behaviour::MEM_FREE_NEEDS_CONTEXT;
use crate::model::context::Owner;
use crate::model::process::Process;
use crate::model::status::*;
use crate::model::thread::Thread;

/// What a host address is to CUDA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostKind {
    Pinned,
    Registered,
    /// Managed memory, which no GPU holds until it is touched there; here it never is.
    Managed,
}

impl HostKind {
    pub fn is_managed(self) -> bool {
        self == Self::Managed
    }
}

/// Host memory that CUDA knows.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory {
    pub bytes: usize,
    pub kind: HostKind,
    pub owner: Owner,
}

/// One stream-ordered allocation.
#[derive(Clone, Copy, Debug)]
pub struct AsyncMemory {
    pub device: usize,
    pub pool: u64,
    pub bytes: u64,
}

/// A piece of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub base: u64,
    pub bytes: u64,
    pub device: usize,
    pub kind: Kind,
}

/// How a piece of device memory came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Plain {
        context: u64,
    },
    Pooled {
        pool: u64,
    },
    /// Mapped by hand.
    Mapped,
    /// A variable of a module.
    Variable,
    /// Of another process.
    Imported,
}

/// Where an address belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Device(usize),
    Host(HostKind, usize),
    Unknown,
}

impl Process {
    /// `cuMemAlloc` in a live context.
    pub fn allocate(&mut self, owner: Owner, bytes: u64) -> Outcome<u64> {
        let node = self.node()?;
        let device = &mut self.devices[owner.device];
        let (gpu, account) = (device.gpu, &mut self.account);
        let address = device.blocks.place(owner.context, bytes, |size| account.charge(node, gpu, size))?;
        self.contents.fresh(address);
        Ok(address)
    }

    /// Frees plain or stream-ordered device memory, whoever's it is.
    pub fn free(&mut self, address: u64) -> Outcome {
        let node = self.node()?;
        for device in &mut self.devices {
            if let Some(bytes) = device.blocks.free(address) {
                self.account.refund(node, device.gpu, bytes);
                self.contents.forget(address);
                self.shared.freed(address, bytes);
                return Ok(());
            }
        }
        let memory = self.pooled.remove(&address).ok_or(INVALID_VALUE)?;
        self.contents.forget(address);
        self.pool(memory.pool)?.pool.give(memory.bytes);
        // The synchronous free waits for the device, so the host has seen it complete.
        self.synchronise(memory.device);
        Ok(())
    }

    /// `cuMemFree` on a thread.
    pub fn driver_free(&mut self, address: u64, thread: &Thread) -> Outcome {
        if MEM_FREE_NEEDS_CONTEXT {
            self.current(thread)?;
        }
        self.unharmed()?;
        match self.free_host(address, HostKind::Managed) {
            Err(INVALID_VALUE) => self.free(address),
            outcome => outcome,
        }
    }

    /// Pinned or managed memory. Neither takes device memory.
    pub fn allocate_host(&mut self, owner: Owner, bytes: usize, kind: HostKind) -> Outcome<u64> {
        if bytes == 0 {
            return Err(if kind == HostKind::Managed { INVALID_VALUE } else { SIM_NOT_MODELLED });
        }
        let address = c::map_host(bytes).ok_or(OUT_OF_MEMORY)?;
        self.host.insert(address, HostMemory { bytes, kind, owner });
        Ok(address)
    }

    /// Frees what [`Self::allocate_host`] returned, of the same kind.
    pub fn free_host(&mut self, address: u64, kind: HostKind) -> Outcome {
        let memory = *self.host.get(&address).filter(|memory| memory.kind == kind).ok_or(INVALID_VALUE)?;
        if !self.is_live(memory.owner) {
            return Err(SIM_NOT_MODELLED);
        }
        self.host.remove(&address);
        c::unmap_host(address, memory.bytes);
        Ok(())
    }

    /// `cudaHostRegister`: notes memory of the caller, which is not touched.
    pub fn register(&mut self, owner: Owner, address: u64, bytes: usize) -> Outcome {
        if address == 0 || bytes == 0 {
            return Err(INVALID_VALUE);
        }
        if self.host_at(address).is_some() {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.host.insert(address, HostMemory { bytes, kind: HostKind::Registered, owner });
        Ok(())
    }

    /// `cudaHostUnregister`.
    pub fn unregister(&mut self, address: u64) -> Outcome {
        if address == 0 {
            return Err(INVALID_VALUE);
        }
        let known = self.host.get(&address).is_some_and(|memory| memory.kind == HostKind::Registered);
        if !known {
            return Err(HOST_MEMORY_NOT_REGISTERED);
        }
        self.host.remove(&address);
        Ok(())
    }

    /// Free and total bytes of a device, as CUDA counts them.
    pub fn memory_info(&self, device: usize) -> Outcome<(u64, u64)> {
        let node = self.node()?;
        let gpu = self.devices[device].gpu;
        Ok((self.account.free_bytes(node, gpu), node.machine.gpus[gpu].cuda_total_bytes()))
    }

    /// Whose an address is.
    pub fn place_of(&self, address: u64) -> Place {
        match (self.host_at(address), self.device_memory(address)) {
            (Some(memory), _) => Place::Host(memory.kind, memory.owner.device),
            (None, Some(found)) => Place::Device(found.device),
            (None, None) => Place::Unknown,
        }
    }

    /// The piece of device memory that an address lies in.
    pub fn device_memory(&self, address: u64) -> Option<Found> {
        let pooled = self.pooled.range(..=address).next_back();
        if let Some((base, memory)) = pooled.filter(|(base, memory)| address - **base < memory.bytes) {
            let kind = Kind::Pooled { pool: memory.pool };
            return Some(Found { base: *base, bytes: memory.bytes, device: memory.device, kind });
        }
        if let Some((base, bytes, device)) = self.mappings.find(address) {
            return Some(Found { base, bytes, device, kind: Kind::Mapped });
        }
        let variables = self.modules.values().flat_map(|module| {
            module.image.variables.iter().filter_map(|variable| {
                let base = *module.variables.get(&variable.name)?;
                Some(Found { base, bytes: variable.bytes, device: module.owner.device, kind: Kind::Variable })
            })
        });
        let mut variables = variables.filter(|found| (found.base..found.base + found.bytes).contains(&address));
        let plain = self.devices.iter().enumerate().find_map(|(device, state)| {
            let (base, bytes, context) = state.blocks.find(address)?;
            Some(Found { base, bytes, device, kind: Kind::Plain { context } })
        });
        plain.or_else(|| variables.next()).or_else(|| self.shared.find(address))
    }

    fn host_at(&self, address: u64) -> Option<&HostMemory> {
        let (base, memory) = self.host.range(..=address).next_back()?;
        (address - base < memory.bytes as u64).then_some(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::process::sample::ready;

    const MIB: u64 = 1 << 20;

    fn with_context() -> (Process, Owner) {
        let mut process = ready();
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        (process, owner)
    }

    #[test]
    fn plain_memory_is_seen_at_once_and_gone_at_once() {
        let (mut process, owner) = with_context();
        let table = process.node().unwrap().table;
        let before = table.used_bytes(0);
        let address = process.allocate(owner, 3 * MIB).unwrap();
        assert_eq!(table.used_bytes(0) - before, 4 * MIB);
        assert_eq!(process.place_of(address + 1), Place::Device(0));
        process.free(address).unwrap();
        assert_eq!(process.free(address), Err(INVALID_VALUE));
        assert_eq!(table.used_bytes(0), before);
        assert_eq!(process.allocate(owner, 1 << 40), Err(OUT_OF_MEMORY));
    }

    #[test]
    fn stream_ordered_memory_leaves_at_the_next_synchronisation() {
        let (mut process, _) = with_context();
        let table = process.node().unwrap().table;
        let before = table.used_bytes(0);
        let address = process.allocate_async(0, 64 * MIB).unwrap();
        process.free_async(address).unwrap();
        assert_eq!(table.used_bytes(0) - before, 64 * MIB);
        process.synchronise(0);
        assert_eq!(table.used_bytes(0), before);
    }

    #[test]
    fn a_reset_keeps_stream_ordered_memory() {
        let mut process = ready();
        let table = process.node().unwrap().table;
        let before = table.used_bytes(0);
        let handle = process.retain_primary(0).unwrap();
        let owner = process.owner(handle).unwrap();
        process.allocate(owner, 4 * MIB).unwrap();
        process.allocate_async(0, 32 * MIB).unwrap();
        process.reset_primary(0);
        assert_eq!(table.used_bytes(0) - before, 32 * MIB);
    }

    #[test]
    fn managed_and_pinned_memory_is_no_device_memory() {
        let (mut process, owner) = with_context();
        let table = process.node().unwrap().table;
        let before = table.used_bytes(0);
        let managed = process.allocate_host(owner, 1 << 33, HostKind::Managed).unwrap();
        assert_eq!(table.used_bytes(0), before);
        assert_eq!(process.free_host(managed, HostKind::Pinned), Err(INVALID_VALUE));
        process.free_host(managed, HostKind::Managed).unwrap();
        process.register(owner, 0x1000, 16).unwrap();
        assert_eq!(process.register(owner, 0x1000, 16), Err(HOST_MEMORY_ALREADY_REGISTERED));
        process.unregister(0x1000).unwrap();
        assert_eq!(process.unregister(0x1000), Err(HOST_MEMORY_NOT_REGISTERED));
    }
}
