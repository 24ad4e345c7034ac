//! A GPU of the simulated machine: its properties, and the sizes that were measured on a similar one.

/// One GPU. Its index in the description is its NVML index, which is PCI order.
#[derive(Clone, Debug)]
pub struct SimulatedGpu {
    pub uuid: String,
    pub uuid_bytes: [u8; 16],
    pub name: String,
    pub total_bytes: u64,
    pub reserved_bytes: u64,
    pub init_bytes: u64,
    pub context_bytes: u64,
    pub context_listed_bytes: u64,
    pub stream_bytes: u64,
    pub module_bytes: u64,
    pub heap_module_bytes: u64,
    pub heap_launch_bytes: u64,
    pub capability: (i32, i32),
    pub sm_count: i32,
    pub max_threads_per_sm: i32,
    pub speed_rank: u32,
    pub pci: Pci,
    pub pci_device_id: u32,
    pub peer_group: u32,
    pub mig_capable: bool,
    pub persistence_mode: bool,
    pub mig_enabled: bool,
    pub memory_status: u32,
    pub processes_status: u32,
    pub processes_without_bytes: bool,
    pub keeps_memory: bool,
}

/// A PCI address.
#[derive(Clone, Copy, Debug)]
pub struct Pci {
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
}

impl Pci {
    /// Reads an address such as `00000000:1B:00.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = text
            .strip_suffix(".0")?
            .split(':')
            .map(|part| u32::from_str_radix(part, 16).ok());
        let [domain, bus, device] = parts.collect::<Option<Vec<u32>>>()?.try_into().ok()?;
        Some(Self {
            domain,
            bus,
            device,
        })
    }

    /// Returns the address in CUDA's format, with a domain of four digits.
    pub fn text(self) -> String {
        format!("{:04X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

impl SimulatedGpu {
    /// Returns the total that CUDA reports: NVML's total without the part that the driver keeps.
    pub fn cuda_total_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.reserved_bytes)
    }

    /// Returns `true` if one GPU can use the memory of another one.
    pub fn is_peer_of(&self, other: &Self) -> bool {
        self.peer_group != 0 && self.peer_group == other.peer_group
    }

    /// Returns the bytes that NVML reports for a process that holds `used` bytes and `contexts` contexts here. They
    /// exclude what `cuInit` allocated and a part of each context.
    pub fn listed_bytes(&self, used: u64, contexts: u32) -> u64 {
        let unlisted =
            self.context_bytes.saturating_sub(self.context_listed_bytes) * u64::from(contexts);
        used.saturating_sub(self.init_bytes + unlisted)
    }
}

/// Returns the sixteen bytes of `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
pub fn uuid_bytes(uuid: &str) -> Option<[u8; 16]> {
    let digits: String = uuid
        .strip_prefix("GPU-")?
        .chars()
        .filter(|c| *c != '-')
        .collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, at) in bytes.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
pub mod sample {
    //! GPUs for unit tests: the third one is the fastest.

    use super::{Pci, SimulatedGpu};

    pub fn gpus() -> Vec<SimulatedGpu> {
        vec![
            gpu("GPU-aa00", 2),
            gpu("GPU-ab00", 2),
            gpu("GPU-b000", 1),
            gpu("GPU-c000", 2),
        ]
    }

    pub fn gpu(uuid: &str, speed_rank: u32) -> SimulatedGpu {
        SimulatedGpu {
            uuid: uuid.to_owned(),
            uuid_bytes: [0; 16],
            name: "Sample".to_owned(),
            total_bytes: 1 << 30,
            reserved_bytes: 64 << 20,
            init_bytes: 3 << 20,
            context_bytes: 100 << 20,
            context_listed_bytes: 95 << 20,
            stream_bytes: 2 << 20,
            module_bytes: 1 << 20,
            heap_module_bytes: 16 << 20,
            heap_launch_bytes: 2 << 20,
            capability: (9, 0),
            sm_count: 4,
            max_threads_per_sm: 1024,
            speed_rank,
            pci: Pci {
                domain: 0,
                bus: 1,
                device: 0,
            },
            pci_device_id: 0,
            peer_group: 1,
            mig_capable: true,
            persistence_mode: true,
            mig_enabled: false,
            memory_status: 0,
            processes_status: 0,
            processes_without_bytes: false,
            keeps_memory: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_sixteen_bytes() {
        let bytes = uuid_bytes("GPU-00000000-0000-4000-8000-0000000000ff").unwrap();
        assert_eq!(bytes[6], 0x40);
        assert_eq!(bytes[15], 0xff);
        assert_eq!(uuid_bytes("GPU-00"), None);
        assert_eq!(uuid_bytes("00000000-0000-4000-8000-000000000001"), None);
    }

    #[test]
    fn a_pci_address_has_three_parts() {
        let address = Pci::parse("00000000:1B:02.0").unwrap();
        assert_eq!((address.domain, address.bus, address.device), (0, 0x1b, 2));
        assert!(Pci::parse("1B:00.0").is_none());
    }

    #[test]
    fn what_initialisation_took_is_counted_for_no_process() {
        let gpu = sample::gpu("GPU-aa00", 1);
        assert_eq!(gpu.listed_bytes(3 << 20, 0), 0);
        assert_eq!(gpu.listed_bytes(103 << 20, 1), 95 << 20);
        assert_eq!(gpu.listed_bytes(207 << 20, 2), 194 << 20);
    }
}
