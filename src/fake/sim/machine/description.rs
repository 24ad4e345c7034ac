//! The description of the simulated machine, as `machine.conf` has it: a line `key = value` for each value.

use crate::machine::gpu::{Pci, SimulatedGpu, uuid_bytes};
use std::collections::HashMap;
use std::str::FromStr;

/// The properties of the entire machine, and its GPUs in PCI order, which is NVML's order.
#[derive(Clone, Debug)]
pub struct MachineConf {
    pub driver_version: String,
    pub cuda_driver_version: i32,
    pub cuda_runtime_version: i32,
    pub alloc_granularity_bytes: u64,
    pub pool_granularity_bytes: u64,
    pub malloc_heap_bytes: u64,
    pub stack_bytes: u64,
    pub printf_fifo_bytes: u64,
    pub gpus: Vec<SimulatedGpu>,
}

impl MachineConf {
    /// Reads `machine.conf`. `None` for anything missing or malformed: the file is written by cuda-pitfalls, which
    /// checked it.
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
        let gpus = (0..fields.number::<usize>("gpus")?)
            .map(|index| fields.gpu(index))
            .collect::<Option<_>>()?;
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

    fn gpu(&self, index: usize) -> Option<SimulatedGpu> {
        let prefix = format!("gpu.{index}.");
        let own = self
            .0
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, *value)));
        let own = Fields(own.collect());
        let uuid = own.text("uuid")?;
        Some(SimulatedGpu {
            uuid_bytes: uuid_bytes(&own.text("cuda_uuid")?)?,
            uuid,
            name: own.text("name")?,
            total_bytes: own.number("total_bytes")?,
            reserved_bytes: own.number("reserved_bytes")?,
            init_bytes: own.number("init_bytes")?,
            context_bytes: own.number("context_bytes")?,
            context_listed_bytes: own.number("context_listed_bytes")?,
            stream_bytes: own.number("stream_bytes")?,
            module_bytes: own.number("module_bytes")?,
            heap_module_bytes: own.number("heap_module_bytes")?,
            heap_launch_bytes: own.number("heap_launch_bytes")?,
            capability: (
                own.number("capability_major")?,
                own.number("capability_minor")?,
            ),
            sm_count: own.number("sm_count")?,
            max_threads_per_sm: own.number("max_threads_per_sm")?,
            speed_rank: own.number("speed_rank")?,
            pci: Pci::parse(&own.text("pci_bus_id")?)?,
            pci_device_id: own.number("pci_device_id")?,
            peer_group: own.number("peer_group")?,
            mig_capable: own.number("mig_capable")?,
            persistence_mode: own.number("persistence_mode")?,
            mig_enabled: own.number("mig_enabled")?,
            memory_status: own.number("memory_status")?,
            processes_status: own.number("processes_status")?,
            processes_without_bytes: own.number("processes_without_bytes")?,
            keeps_memory: own.number("keeps_memory")?,
        })
    }
}

#[cfg(test)]
pub mod sample {
    //! A machine for unit tests.

    use super::MachineConf;
    use crate::machine::gpu::sample::gpus;

    pub fn description() -> MachineConf {
        MachineConf {
            driver_version: "580.159.04".to_owned(),
            cuda_driver_version: 13000,
            cuda_runtime_version: 13000,
            alloc_granularity_bytes: 2 << 20,
            pool_granularity_bytes: 32 << 20,
            malloc_heap_bytes: 8 << 20,
            stack_bytes: 1024,
            printf_fifo_bytes: 1 << 20,
            gpus: gpus(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_is_refused() {
        assert!(MachineConf::parse("format = 1\ngpus = 0\n").is_none());
    }
}
