//! The machine's GPUs and driver, as NVML reports them.

use std::collections::BTreeMap;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::gpus::GpuHandles;
use crate::mapped::mapped_nvml;
use cuda_pitfalls_core::sample::{Gpu, Inventory, SamplerEvent};

/// Reads the facts that do not change during a run. If it is unknown whether the library is real, NVML counts as
/// unavailable, because its answers would have no provenance.
pub(super) fn take(nvml: &Nvml, gpus: &GpuHandles, init_ns: u64) -> SamplerEvent {
    let Some(library) = mapped_nvml() else {
        let detail =
            "it is unknown whether the NVML that answered is real or simulated".to_string();
        return SamplerEvent::Unavailable {
            reason: "nvml_error".to_string(),
            detail,
        };
    };
    SamplerEvent::Ready(Box::new(Inventory {
        driver_version: nvml.sys_driver_version().ok(),
        cuda_driver_version: nvml.sys_cuda_driver_version().ok(),
        nvml_version: nvml.sys_nvml_version().ok(),
        gpus: gpus.devices().iter().map(gpu).collect(),
        simulated: library.simulated,
        init_ns,
    }))
}

pub(super) fn gpu(device: &Device) -> Gpu {
    let mut unread = BTreeMap::new();
    let memory = read(&mut unread, "total_bytes", device.memory_info());
    let capability = read(
        &mut unread,
        "compute_capability",
        device.cuda_compute_capability(),
    );
    let name = read(&mut unread, "name", device.name());
    let pci = read(&mut unread, "pci_bus_id", device.pci_info());
    let mode = read(&mut unread, "compute_mode", device.compute_mode());
    let persistence = read(&mut unread, "persistence", device.is_in_persistent_mode());
    let mig = read(&mut unread, "mig", device.mig_mode());
    let minor = read(&mut unread, "device_minor", device.minor_number());
    let uuid = device
        .uuid()
        .unwrap_or_else(|error| format!("unreadable: {error}"));
    Gpu {
        uuid,
        name,
        pci_bus_id: pci.map(|pci| pci.bus_id),
        compute_capability: capability
            .map(|capability| format!("{}.{}", capability.major, capability.minor)),
        total_bytes: memory.as_ref().map(|memory| memory.total),
        reserved_bytes: memory.as_ref().map(|memory| memory.reserved),
        compute_mode: mode.map(|mode| format!("{mode:?}")),
        device_minor: minor,
        persistence,
        mig: mig.map(|mig| mig.current == 1),
        unread,
    }
}

/// Returns a value that was queried from NVML. If the query failed, the error is kept under this name.
fn read<T>(
    unread: &mut BTreeMap<String, String>,
    name: &str,
    answer: Result<T, NvmlError>,
) -> Option<T> {
    answer
        .inspect_err(|error| drop(unread.insert(name.to_string(), error.to_string())))
        .ok()
}
