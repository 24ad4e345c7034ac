//! The description of a simulated machine, and checks that such a machine is possible.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The number of columns of the library's table.
const MAX_GPUS: usize = 16;

/// The smallest possible granularity of memory, in bytes.
const SMALLEST_UNIT_BYTES: u64 = 512;

/// The size of NVML's buffer for a name, including the NUL at the end.
const NAME_ROOM: usize = 96;

/// The reason why a described machine is impossible.
#[derive(Debug, thiserror::Error)]
pub(super) enum DescriptionError {
    #[error("`{0}` is not a driver version such as 580.159.04")]
    DriverVersion(String),
    #[error("`{0}` is {1}; versions are written like 13000 for 13.0")]
    Version(&'static str, u32),
    #[error("`{0}` is {1}; it must be a power of two, {least} or more", least = SMALLEST_UNIT_BYTES)]
    Granularity(&'static str, u64),
    #[error("it has {0} GPUs, but the maximum is {most}", most = MAX_GPUS)]
    Gpus(usize),
    #[error("the model `{0}`: {1}")]
    Model(String, Box<DescriptionError>),
    #[error("GPU {0} has the model `{1}`, which is not described")]
    UnknownModel(usize, String),
    #[error("two GPUs have the uuid `{0}`")]
    SameUuid(String),
    #[error("GPU {0} (`{1}`) is not in PCI order")]
    PciOrder(usize, String),
    #[error("its name is longer than {most} bytes", most = NAME_ROOM - 1)]
    Name,
    #[error("`reserved_bytes` ({0}) must be less than `total_bytes` ({1})")]
    NoMemory(u64, u64),
    #[error("`{0}` ({1}) is more than the memory available to programs ({2})")]
    TooMuch(&'static str, u64, u64),
    #[error("`context_bytes` is 0, but every context uses memory")]
    FreeContext,
    #[error("`context_listed_bytes` is more than `context_bytes` ({0})")]
    Listed(u64),
    #[error("`{0}` is {1}; it must be 1 or more")]
    Count(&'static str, u32),
    #[error("`{0}` is not a compute capability such as 9.0")]
    Capability(String),
    #[error(
        "`{0}` is not a UUID of the form GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx with lower-case digits"
    )]
    Uuid(String),
    #[error("`{0}` is not a PCI address of the form 00000000:1B:00.0 with upper-case digits")]
    PciBusId(String),
    #[error("`{0}` must be one line of text, and not empty")]
    Text(String),
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub driver_version: String,
    pub cuda_driver_version: u32,
    pub cuda_runtime_version: u32,
    /// Measured on 2x NVIDIA H200, driver 580.159.04, like the heap's; those of pool, stack and printf buffer are not.
    #[serde(default = "mib::<2>")]
    pub alloc_granularity_bytes: u64,
    #[serde(default = "mib::<32>")]
    pub pool_granularity_bytes: u64,
    #[serde(default = "mib::<8>")]
    pub malloc_heap_bytes: u64,
    #[serde(default = "default_stack")]
    pub stack_bytes: u64,
    #[serde(default = "mib::<1>")]
    pub printf_fifo_bytes: u64,
    #[serde(default, skip_serializing)]
    pub models: BTreeMap<String, Model>,
    /// The GPUs in PCI order, which is NVML's order. Without GPUs, the driver finds no device.
    #[serde(default, skip_serializing)]
    pub gpu: Vec<DescribedGpu>,
}

/// The properties that all GPUs of the same model share.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub name: String,
    pub total_bytes: u64,
    /// The part of the total that the driver reserves.
    pub reserved_bytes: u64,
    /// Memory that `cuInit` alone allocates, once for all processes. NVML counts it for no process.
    #[serde(default)]
    pub init_bytes: u64,
    /// Memory of one context.
    pub context_bytes: u64,
    /// The part of a context that NVML counts for the process; by default all of it.
    #[serde(skip_serializing)]
    pub context_listed_bytes: Option<u64>,
    /// Memory of every four slots of a context beyond the first two. Each visible GPU and each stream needs one slot.
    #[serde(default)]
    pub stream_bytes: u64,
    /// Memory that loading any module allocates.
    #[serde(default)]
    pub module_bytes: u64,
    /// Additional memory of the first module of a context that uses the device heap.
    #[serde(default)]
    pub heap_module_bytes: u64,
    /// Memory that creating the device heap allocates in addition to its size.
    #[serde(default)]
    pub heap_launch_bytes: u64,
    #[serde(skip_serializing)]
    pub compute_capability: String,
    pub sm_count: u32,
    pub max_threads_per_sm: u32,
    /// The rank by speed: 1 is the fastest. CUDA's default order follows this rank.
    pub speed_rank: u32,
    pub pci_device_id: u32,
    /// GPUs of one group can address each other's memory; 0 means no group.
    pub peer_group: u32,
    pub mig_capable: bool,
    pub persistence_mode: bool,
    /// `true` if NVML reports that MIG is enabled. CUDA's side has no instances.
    #[serde(default)]
    pub mig_enabled: bool,
    /// The status of NVML's memory queries, and of its lists of processes; 3 is `NVML_ERROR_NOT_SUPPORTED`.
    #[serde(default)]
    pub memory_status: u32,
    #[serde(default)]
    pub processes_status: u32,
    /// `true` if its lists do not include the memory of a process.
    #[serde(default)]
    pub processes_without_bytes: bool,
    /// `true` if memory that was allocated once counts as used permanently.
    #[serde(default)]
    pub keeps_memory: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DescribedGpu {
    pub model: String,
    pub uuid: String,
    pub pci_bus_id: String,
    /// The UUID that CUDA reports for it, if it differs from NVML's, as for a MIG instance.
    pub cuda_uuid: Option<String>,
}

fn mib<const N: u64>() -> u64 {
    N << 20
}

fn default_stack() -> u64 {
    1024
}

impl Description {
    pub(super) fn check_values(&self) -> Result<(), DescriptionError> {
        if !self
            .driver_version
            .starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(DescriptionError::DriverVersion(self.driver_version.clone()));
        }
        for (key, version) in [
            ("cuda_driver_version", self.cuda_driver_version),
            ("cuda_runtime_version", self.cuda_runtime_version),
        ] {
            if !(1000..1_000_000).contains(&version) {
                return Err(DescriptionError::Version(key, version));
            }
        }
        for (key, bytes) in [
            ("alloc_granularity_bytes", self.alloc_granularity_bytes),
            ("pool_granularity_bytes", self.pool_granularity_bytes),
        ] {
            if bytes < SMALLEST_UNIT_BYTES || !bytes.is_power_of_two() {
                return Err(DescriptionError::Granularity(key, bytes));
            }
        }
        if self.gpu.len() > MAX_GPUS {
            return Err(DescriptionError::Gpus(self.gpu.len()));
        }
        for (name, model) in &self.models {
            model
                .possible()
                .map_err(|why| DescriptionError::Model(name.clone(), Box::new(why)))?;
        }
        for (index, gpu) in self.gpu.iter().enumerate() {
            self.has_place(index, gpu)?;
        }
        Ok(())
    }

    pub(super) fn model(
        &self,
        index: usize,
        gpu: &DescribedGpu,
    ) -> Result<&Model, DescriptionError> {
        let described = self.models.get(&gpu.model);
        described.ok_or_else(|| DescriptionError::UnknownModel(index, gpu.model.clone()))
    }

    fn has_place(&self, index: usize, gpu: &DescribedGpu) -> Result<(), DescriptionError> {
        self.model(index, gpu)?;
        check_uuid(&gpu.uuid)?;
        if let Some(uuid) = &gpu.cuda_uuid {
            check_uuid(uuid)?;
        }
        check_pci_bus_id(&gpu.pci_bus_id)?;
        let before = self.gpu.get(..index).unwrap_or_default();
        if before.iter().any(|other| other.uuid == gpu.uuid) {
            return Err(DescriptionError::SameUuid(gpu.uuid.clone()));
        }
        // Both forms have a fixed width and the same case, so the order of the texts is the order of the addresses.
        if before
            .last()
            .is_some_and(|other| other.pci_bus_id >= gpu.pci_bus_id)
        {
            return Err(DescriptionError::PciOrder(index, gpu.pci_bus_id.clone()));
        }
        Ok(())
    }
}

impl Model {
    fn possible(&self) -> Result<(), DescriptionError> {
        self.parse_capability()?;
        if self.name.len() >= NAME_ROOM {
            return Err(DescriptionError::Name);
        }
        let (reserved, total) = (self.reserved_bytes, self.total_bytes);
        let usable = total.saturating_sub(reserved);
        if usable == 0 {
            return Err(DescriptionError::NoMemory(reserved, total));
        }
        for (key, bytes) in [
            ("init_bytes", self.init_bytes),
            ("context_bytes", self.context_bytes),
            ("stream_bytes", self.stream_bytes),
            ("module_bytes", self.module_bytes),
            ("heap_module_bytes", self.heap_module_bytes),
            ("heap_launch_bytes", self.heap_launch_bytes),
        ] {
            if bytes > usable {
                return Err(DescriptionError::TooMuch(key, bytes, usable));
            }
        }
        if self.context_bytes == 0 {
            return Err(DescriptionError::FreeContext);
        }
        if self.listed() > self.context_bytes {
            return Err(DescriptionError::Listed(self.context_bytes));
        }
        for (key, count) in [
            ("sm_count", self.sm_count),
            ("max_threads_per_sm", self.max_threads_per_sm),
            ("speed_rank", self.speed_rank),
        ] {
            // The library stores them in signed integers, as CUDA does.
            if !(1..=i32::MAX as u32).contains(&count) {
                return Err(DescriptionError::Count(key, count));
            }
        }
        Ok(())
    }

    /// Returns the memory that NVML reports for a process with one context, in bytes.
    pub(super) fn listed(&self) -> u64 {
        self.context_listed_bytes.unwrap_or(self.context_bytes)
    }

    /// Returns the compute capability as major and minor version.
    pub(super) fn parse_capability(&self) -> Result<(u16, u16), DescriptionError> {
        let text = &self.compute_capability;
        let parts = text
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        parts.ok_or_else(|| DescriptionError::Capability(text.clone()))
    }
}

/// Checks that a text is a UUID in NVIDIA's form, in lower case, as NVML prints it.
fn check_uuid(text: &str) -> Result<(), DescriptionError> {
    let digits = text.strip_prefix("GPU-").unwrap_or_default();
    let lengths: Vec<_> = digits.split('-').map(str::len).collect();
    if lengths == [8, 4, 4, 4, 12]
        && digits
            .chars()
            .all(|c| matches!(c, '0'..='9' | 'a'..='f' | '-'))
    {
        return Ok(());
    }
    Err(DescriptionError::Uuid(text.to_owned()))
}

/// Checks that a text is a PCI address as NVML prints it.
fn check_pci_bus_id(text: &str) -> Result<(), DescriptionError> {
    let shape: String = text
        .chars()
        .map(|c| {
            if matches!(c, '0'..='9' | 'A'..='F') {
                'X'
            } else {
                c
            }
        })
        .collect();
    if shape == "XXXXXXXX:XX:XX.X" && text.ends_with(".0") {
        return Ok(());
    }
    Err(DescriptionError::PciBusId(text.to_owned()))
}
