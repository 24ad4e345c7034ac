//! The memory of a process: plain device memory, and host memory that CUDA knows.

use crate::c;
use crate::model::address::{DeviceMemory, DeviceMemoryKind, Location};
use crate::model::behaviour::MEM_FREE_NEEDS_CONTEXT;
use crate::model::context::ContextOwner;
use crate::model::host::{HostKind, HostMemory};
use crate::model::needs;
use crate::model::status::*;
use crate::model::thread::Thread;
use crate::process::SimulatedProcess;

impl SimulatedProcess {
    /// `cuMemAlloc` in a live context.
    pub fn allocate(&mut self, owner: ContextOwner, bytes: u64) -> Outcome<u64> {
        let device = &mut self.devices[owner.device];
        let (gpu, account) = (device.gpu, &mut self.account);
        let address = device
            .blocks
            .allocate(owner.context, bytes, |size| account.charge(gpu, size))?;
        self.contents.fresh(address);
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
                self.contents.forget(address);
                self.ipc.freed(address, bytes);
                return Ok(());
            }
        }
        // Unlike the free in stream order, this one waits for the device, so the host has seen it complete.
        let device = self.give_to_pool(address).ok_or(INVALID_VALUE)?;
        self.synchronise(device);
        Ok(())
    }

    /// `cuMemFree` on a thread.
    pub fn driver_free(&mut self, address: u64, thread: &Thread) -> Outcome {
        if MEM_FREE_NEEDS_CONTEXT {
            self.current(thread)?;
        }
        self.unharmed()?;
        self.free(address)
    }

    /// Pinned or managed memory. Neither takes device memory.
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

    /// Managed memory. It is attached to all streams (1) or to the host (2).
    pub fn allocate_managed(
        &mut self,
        owner: ContextOwner,
        bytes: usize,
        flags: u32,
    ) -> Outcome<u64> {
        if !matches!(flags, 1 | 2) {
            return Err(INVALID_VALUE);
        }
        needs::of_managed_memory()?;
        self.allocate_host(owner, bytes, HostKind::Managed)
    }

    /// Frees what [`Self::allocate_host`] returned, of the same kind.
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

    /// Free and total bytes of a device, as CUDA counts them.
    pub fn memory_info(&self, device: usize) -> Outcome<(u64, u64)> {
        let gpu = self.devices[device].gpu;
        Ok((
            self.account.free_bytes(gpu)?,
            self.machine()?.gpu(gpu).cuda_total_bytes(),
        ))
    }

    /// Where the memory at an address is.
    pub fn location_of(&self, address: u64) -> Location {
        match (self.host_at(address), self.device_memory(address)) {
            (Some(memory), _) => Location::Host(memory.kind, memory.owner.device),
            (None, Some(found)) => Location::Device(found.device),
            (None, None) => Location::Unknown,
        }
    }

    /// The piece of device memory that an address lies in.
    pub fn device_memory(&self, address: u64) -> Option<DeviceMemory> {
        let pooled = self
            .pooled
            .range(..=address)
            .next_back()
            .map(|(base, memory)| {
                let kind = DeviceMemoryKind::Pooled { pool: memory.pool };
                DeviceMemory {
                    base: *base,
                    bytes: memory.bytes,
                    device: memory.device,
                    kind,
                }
            });
        pooled
            .filter(|found| found.contains(address))
            .or_else(|| self.mappings.find(address))
            .or_else(|| {
                self.devices.iter().enumerate().find_map(|(device, state)| {
                    let (base, bytes, context) = state.blocks.find(address)?;
                    Some(DeviceMemory {
                        base,
                        bytes,
                        device,
                        kind: DeviceMemoryKind::Plain { context },
                    })
                })
            })
            .or_else(|| {
                let mut variables = self.modules.values().flat_map(|module| {
                    module.image.variables.iter().filter_map(|variable| {
                        let (base, device) =
                            (*module.variables.get(&variable.name)?, module.owner.device);
                        Some(DeviceMemory {
                            base,
                            bytes: variable.bytes,
                            device,
                            kind: DeviceMemoryKind::Variable,
                        })
                    })
                });
                variables.find(|found| found.contains(address))
            })
            .or_else(|| self.ipc.find(address))
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
