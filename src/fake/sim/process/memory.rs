//! The memory of a process: plain device memory, and host memory that CUDA knows.

use crate::c;
use crate::model::address::{DeviceMemory, DeviceMemoryKind, Location};
use crate::model::context::ContextOwner;
use crate::model::host::{HostKind, HostMemory};
use crate::model::needs;
use crate::model::status::*;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// `cuMemAlloc` in a live context.
    pub fn allocate(&mut self, owner: ContextOwner, bytes: u64) -> Outcome<u64> {
        let device = &mut self.devices[owner.device];
        let (gpu, account) = (device.gpu, &mut self.account);
        let address = device
            .blocks
            .allocate(owner.context, bytes, |size| account.charge(gpu, size))?;
        Ok(address)
    }

    /// Frees device memory, plain or stream-ordered, of whatever context, and managed memory.
    pub fn free(&mut self, address: u64) -> Outcome {
        match self.free_host(address, HostKind::Managed) {
            Err(INVALID_VALUE) => {}
            outcome => return outcome,
        }
        for device in &mut self.devices {
            if let Some(bytes) = device.blocks.free(address) {
                self.account.refund(device.gpu, bytes);
                return Ok(());
            }
        }
        // Unlike the free in stream order, this one waits for the device, so the host has seen it complete.
        let device = self.give_to_pool(address).ok_or(INVALID_VALUE)?;
        self.synchronise(device);
        Ok(())
    }

    /// `cuMemFree`, which finds the owner by the address and needs no current context (device/free-without-a-context).
    pub fn driver_free(&mut self, address: u64) -> Outcome {
        self.unharmed()?;
        self.free(address)
    }

    /// Allocates pinned or managed memory, which uses no device memory.
    pub fn allocate_host(
        &mut self,
        owner: ContextOwner,
        bytes: usize,
        kind: HostKind,
    ) -> Outcome<u64> {
        if bytes == 0 {
            return Err(if kind == HostKind::Managed {
                INVALID_VALUE
            } else {
                SIM_NOT_MODELLED
            });
        }
        let address = c::map_host(bytes).ok_or(OUT_OF_MEMORY)?;
        self.host.insert(address, HostMemory { bytes, kind, owner });
        Ok(address)
    }

    /// Allocates managed memory. It is attached to all streams (1) or to the host (2).
    pub fn allocate_managed(
        &mut self,
        owner: ContextOwner,
        bytes: usize,
        flags: u32,
    ) -> Outcome<u64> {
        if !matches!(flags, 1 | 2) {
            return Err(INVALID_VALUE);
        }
        needs::check_managed_memory()?;
        self.allocate_host(owner, bytes, HostKind::Managed)
    }

    /// Frees memory from [`Self::allocate_host`], of the same kind.
    pub fn free_host(&mut self, address: u64, kind: HostKind) -> Outcome {
        let memory = *self
            .host
            .get(&address)
            .filter(|memory| memory.kind == kind)
            .ok_or(INVALID_VALUE)?;
        if !self.contexts.is_live(memory.owner) {
            return Err(SIM_NOT_MODELLED);
        }
        self.host.remove(&address);
        c::unmap_host(address, memory.bytes);
        Ok(())
    }

    /// `cudaHostRegister`: notes memory of the caller, which is not touched.
    pub fn register(&mut self, owner: ContextOwner, address: u64, bytes: usize) -> Outcome {
        if address == 0 || bytes == 0 {
            return Err(INVALID_VALUE);
        }
        if self.host_at(address).is_some() {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.host.insert(
            address,
            HostMemory {
                bytes,
                kind: HostKind::Registered,
                owner,
            },
        );
        Ok(())
    }

    /// `cudaHostUnregister`.
    pub fn unregister(&mut self, address: u64) -> Outcome {
        if address == 0 {
            return Err(INVALID_VALUE);
        }
        let known = self
            .host
            .get(&address)
            .is_some_and(|memory| memory.kind == HostKind::Registered);
        if !known {
            return Err(HOST_MEMORY_NOT_REGISTERED);
        }
        self.host.remove(&address);
        Ok(())
    }

    /// Rejects a range that is not within one piece of device memory, of whatever device.
    pub fn check_range(&self, address: u64, bytes: u64) -> Outcome {
        self.find_piece(address, bytes).map(drop)
    }

    /// Fills memory of a device. Memory of the host, managed memory included, and memory of another device are beyond
    /// the model.
    pub fn fill(&self, device: usize, address: u64, bytes: u64) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        if self.find_piece(address, bytes)?.device == device {
            Ok(())
        } else {
            Err(SIM_NOT_MODELLED)
        }
    }

    /// Returns the piece of device memory that holds `bytes` bytes from an address on.
    fn find_piece(&self, address: u64, bytes: u64) -> Outcome<DeviceMemory> {
        if self.host_at(address).is_some() {
            return Err(SIM_NOT_MODELLED);
        }
        let found = self.device_memory(address).ok_or(INVALID_VALUE)?;
        match (address - found.base).checked_add(bytes) {
            Some(end) if end <= found.bytes => Ok(found),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Returns free and total bytes of a device, as CUDA counts them.
    pub fn memory_info(&self, device: usize) -> Outcome<(u64, u64)> {
        let gpu = self.devices[device].gpu;
        Ok((
            self.account.free_bytes(gpu)?,
            self.machine()?.gpu(gpu).cuda_total_bytes(),
        ))
    }

    /// Returns the location of the memory at an address.
    pub fn location_of(&self, address: u64) -> Location {
        match (self.host_at(address), self.device_memory(address)) {
            (Some(memory), _) => Location::Host(memory.kind, memory.owner.device),
            (None, Some(found)) => Location::Device(found.device),
            (None, None) => Location::Unknown,
        }
    }

    /// Returns the piece of device memory that an address lies in.
    pub fn device_memory(&self, address: u64) -> Option<DeviceMemory> {
        if let Some(found) = self.pooled_memory(address) {
            return Some(found);
        }
        if let Some(found) = self.mappings.find(address) {
            return Some(found);
        }
        for (device, state) in self.devices.iter().enumerate() {
            if let Some((base, bytes, context)) = state.blocks.find(address) {
                let kind = DeviceMemoryKind::Plain { context };
                return Some(DeviceMemory {
                    base,
                    bytes,
                    device,
                    kind,
                });
            }
        }
        self.variable_memory(address)
    }

    fn pooled_memory(&self, address: u64) -> Option<DeviceMemory> {
        let (base, memory) = self.pooled.range(..=address).next_back()?;
        let found = DeviceMemory {
            base: *base,
            bytes: memory.bytes,
            device: memory.device,
            kind: DeviceMemoryKind::Pooled,
        };
        found.contains(address).then_some(found)
    }

    fn variable_memory(&self, address: u64) -> Option<DeviceMemory> {
        for module in self.modules.values() {
            for variable in &module.image.variables {
                let found = DeviceMemory {
                    base: *module.variables.get(&variable.name)?,
                    bytes: variable.bytes,
                    device: module.owner.device,
                    kind: DeviceMemoryKind::Variable,
                };
                if found.contains(address) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn host_at(&self, address: u64) -> Option<&HostMemory> {
        let (base, memory) = self.host.range(..=address).next_back()?;
        (address - base < memory.bytes as u64).then_some(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sample::{primary, ready};

    #[test]
    fn host_memory_is_returned_as_what_it_is() {
        let mut process = ready();
        let owner = primary(&mut process, 0);
        let managed = process
            .allocate_host(owner, 1 << 33, HostKind::Managed)
            .unwrap();
        assert_eq!(
            process.free_host(managed, HostKind::Pinned),
            Err(INVALID_VALUE)
        );
        process.free_host(managed, HostKind::Managed).unwrap();
        process.register(owner, 0x1000, 16).unwrap();
        assert_eq!(
            process.register(owner, 0x1000, 16),
            Err(HOST_MEMORY_ALREADY_REGISTERED)
        );
        process.unregister(0x1000).unwrap();
        assert_eq!(process.unregister(0x1000), Err(HOST_MEMORY_NOT_REGISTERED));
    }
}
