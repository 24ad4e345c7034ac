//! The machine that is simulated, as `node.conf` describes it: flat `key = value` lines.

use std::collections::HashMap;
use std::str::FromStr;

/// One GPU. Its index in [`Machine::gpus`] is its NVML index, which is PCI order.
#[derive(Clone, Debug)]
pub struct Gpu {
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
}

/// A PCI address.
#[derive(Clone, Copy, Debug)]
pub struct Pci {
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
}

/// The whole node.
#[derive(Clone, Debug)]
pub struct Machine {
    pub driver_version: String,
    pub cuda_driver_version: i32,
    pub cuda_runtime_version: i32,
    pub alloc_granularity_bytes: u64,
    pub pool_granularity_bytes: u64,
    pub malloc_heap_bytes: u64,
    pub stack_bytes: u64,
    pub printf_fifo_bytes: u64,
    pub gpus: Vec<Gpu>,
}

impl Pci {
    /// As CUDA writes it, with a domain of four digits.
    pub fn text(self) -> String {
        format!("{:04X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

impl Gpu {
    /// What CUDA calls the total: NVML's total without the part the driver keeps.
    pub fn cuda_total_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.reserved_bytes)
    }

    /// What NVML counts for a process that holds `used` bytes and so many contexts here: neither what `cuInit` took nor a part of
    /// each context.
    pub fn listed_bytes(&self, used: u64, contexts: u32) -> u64 {
        let unlisted = self.context_bytes.saturating_sub(self.context_listed_bytes) * u64::from(contexts);
        used.saturating_sub(self.init_bytes + unlisted)
    }
}

impl Machine {
    /// Reads `node.conf`. `None` for anything missing or malformed: the file is written by cuda-pitfalls, which checked it.
    pub fn parse(text: &str) -> Option<Self> {
        let fields: HashMap<&str, &str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
            .map(|line| line.split_once(" = "))
            .collect::<Option<_>>()?;
        let fields = Fields(fields);
        if fields.number::<u32>("format")? != 1 {
            return None;
        }
        let gpus = (0..fields.number::<usize>("gpus")?).map(|index| fields.gpu(index)).collect::<Option<_>>()?;
        Some(Self {
            driver_version: fields.text("driver_version")?,
            cuda_driver_version: fields.number("cuda_driver_version")?,
            cuda_runtime_version: fields.number("cuda_runtime_version")?,
            alloc_granularity_bytes: fields.number::<u64>("alloc_granularity_bytes")?.max(512),
            pool_granularity_bytes: fields.number::<u64>("pool_granularity_bytes")?.max(512),
            malloc_heap_bytes: fields.number("malloc_heap_bytes")?,
            stack_bytes: fields.number("stack_bytes")?,
            printf_fifo_bytes: fields.number("printf_fifo_bytes")?,
            gpus,
        })
    }
}

struct Fields<'a>(HashMap<&'a str, &'a str>);

impl Fields<'_> {
    fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).map(|value| (*value).to_owned())
    }

    fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.0.get(key)?.parse().ok()
    }

    fn gpu(&self, index: usize) -> Option<Gpu> {
        let key = |name: &str| format!("gpu.{index}.{name}");
        let uuid = self.text(&key("uuid"))?;
        Some(Gpu {
            uuid_bytes: uuid_bytes(&uuid)?,
            uuid,
            name: self.text(&key("name"))?,
            total_bytes: self.number(&key("total_bytes"))?,
            reserved_bytes: self.number(&key("reserved_bytes"))?,
            init_bytes: self.number(&key("init_bytes"))?,
            context_bytes: self.number(&key("context_bytes"))?,
            context_listed_bytes: self.number(&key("context_listed_bytes"))?,
            stream_bytes: self.number(&key("stream_bytes"))?,
            module_bytes: self.number(&key("module_bytes"))?,
            heap_module_bytes: self.number(&key("heap_module_bytes"))?,
            heap_launch_bytes: self.number(&key("heap_launch_bytes"))?,
            capability: (self.number(&key("capability_major"))?, self.number(&key("capability_minor"))?),
            sm_count: self.number(&key("sm_count"))?,
            max_threads_per_sm: self.number(&key("max_threads_per_sm"))?,
            speed_rank: self.number(&key("speed_rank"))?,
            pci: pci(&self.text(&key("pci_bus_id"))?)?,
            pci_device_id: self.number(&key("pci_device_id"))?,
            peer_group: self.number(&key("peer_group"))?,
            mig_capable: self.number(&key("mig_capable"))?,
            persistence_mode: self.number(&key("persistence_mode"))?,
        })
    }
}

/// The sixteen bytes of `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
fn uuid_bytes(uuid: &str) -> Option<[u8; 16]> {
    let digits: String = uuid.strip_prefix("GPU-")?.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, at) in bytes.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// `00000000:1B:00.0` in its parts.
fn pci(text: &str) -> Option<Pci> {
    let hex = |part: &str| u32::from_str_radix(part, 16).ok();
    let mut parts = text.strip_suffix(".0")?.split(':');
    let found = Pci { domain: hex(parts.next()?)?, bus: hex(parts.next()?)?, device: hex(parts.next()?)? };
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
pub mod sample {
    //! A machine for unit tests: four GPUs, the third one the fastest.

    use super::{Gpu, Machine, Pci};

    pub fn gpu(uuid: &str, speed_rank: u32) -> Gpu {
        Gpu {
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
            pci: Pci { domain: 0, bus: 1, device: 0 },
            pci_device_id: 0,
            peer_group: 1,
            mig_capable: true,
            persistence_mode: true,
        }
    }

    pub fn machine() -> Machine {
        Machine {
            driver_version: "580.159.04".to_owned(),
            cuda_driver_version: 13000,
            cuda_runtime_version: 13000,
            alloc_granularity_bytes: 2 << 20,
            pool_granularity_bytes: 32 << 20,
            malloc_heap_bytes: 8 << 20,
            stack_bytes: 1024,
            printf_fifo_bytes: 1 << 20,
            gpus: vec![gpu("GPU-aa00", 2), gpu("GPU-ab00", 2), gpu("GPU-b000", 1), gpu("GPU-c000", 2)],
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
        let address = pci("00000000:1B:02.0").unwrap();
        assert_eq!((address.domain, address.bus, address.device), (0, 0x1b, 2));
        assert!(pci("1B:00.0").is_none());
    }

    #[test]
    fn what_initialisation_took_is_counted_for_no_process() {
        let gpu = sample::gpu("GPU-aa00", 1);
        assert_eq!(gpu.listed_bytes(3 << 20, 0), 0);
        assert_eq!(gpu.listed_bytes(103 << 20, 1), 95 << 20);
        assert_eq!(gpu.listed_bytes(207 << 20, 2), 194 << 20);
    }

    #[test]
    fn a_missing_key_is_refused() {
        assert!(Machine::parse("format = 1\ngpus = 0\n").is_none());
    }
}
