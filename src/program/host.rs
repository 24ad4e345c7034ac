//! Facts about this host that need no GPU: kernel, namespaces, containers, environment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cuda_pitfalls_core::machine::Isolation;
use cuda_pitfalls_core::scenario::environment::in_reports;
use cuda_pitfalls_instrument::examiner::place;

/// The inode of the first PID namespace, fixed by the kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Detects the containers and namespaces around this process, before NVML is queried.
pub(crate) fn detect_isolation() -> Isolation {
    let namespace = fs::read_link("/proc/self/ns/pid").ok();
    Isolation {
        pid_namespace: namespace.map(|name| name.to_string_lossy() != FIRST_PID_NAMESPACE),
        container: detect_container(),
        own_pid_listed: None,
    }
}

pub(crate) fn detect_container() -> Option<String> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_string());
    }
    let files = [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")];
    let found = files
        .into_iter()
        .find(|(file, _)| fs::exists(file).unwrap_or(false));
    found.map(|(_, name)| name.to_string())
}

/// Directory where the kernel lists the devices of the PCI bus.
const PCI: &str = "/sys/bus/pci/devices";

/// Returns the number of NVIDIA GPUs that the PCI bus lists for the driver; `None` in a container, because only some of
/// them may belong to it.
pub(crate) fn pci_gpus() -> Option<u64> {
    if detect_container().is_some() {
        None
    } else {
        listed_gpus(Path::new(PCI))
    }
}

/// Returns the number of GPUs bound to the NVIDIA driver; if there are none, the number of GPUs that no other driver is
/// bound to. A GPU that is passed through to a virtual machine, or a virtual function of a GPU, does not belong to the
/// driver.
fn listed_gpus(devices: &Path) -> Option<u64> {
    let (mut taken, mut left) = (0, 0);
    for entry in fs::read_dir(devices).ok()?.flatten() {
        let device = entry.path();
        let read = |name: &str| fs::read_to_string(device.join(name)).unwrap_or_default();
        let (vendor, class) = (read("vendor"), read("class"));
        let is_gpu = vendor.trim() == "0x10de"
            && (class.starts_with("0x0300") || class.starts_with("0x0302"));
        if !is_gpu || device.join("physfn").exists() {
            continue;
        }
        match fs::read_link(device.join("driver")) {
            Ok(driver) if driver.ends_with("nvidia") => taken += 1,
            Ok(_) => {}
            Err(_) => left += 1,
        }
    }
    Some(if taken > 0 { taken } else { left })
}

/// Returns the kernel's version, without a distribution's suffix.
pub(crate) fn kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().split('-').next()?.to_string())
}

/// Returns the variables about GPUs that a scheduler or a user has set. No others are recorded.
pub(crate) fn environment() -> BTreeMap<String, String> {
    in_reports()
        .filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)))
        .collect()
}

/// Returns the directory of MPS's control pipe, if one exists where clients search for it.
pub(crate) fn mps_folder() -> Option<String> {
    let folder =
        std::env::var("CUDA_MPS_PIPE_DIRECTORY").unwrap_or_else(|_| "/tmp/nvidia-mps".to_string());
    place::has_control_pipe(Path::new(&folder), rustix::process::geteuid().as_raw())
        .then_some(folder)
}

/// Returns the largest resident set of this process so far, in bytes.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn gpus_on_the_bus_are_those_of_the_driver() {
        let bus = tempfile::tempdir().unwrap();
        let device = |at: &str, vendor: &str, class: &str, driver: Option<&str>| {
            let folder = bus.path().join(at);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(folder.join("class"), format!("{class}\n")).unwrap();
            if let Some(driver) = driver {
                symlink(format!("../../drivers/{driver}"), folder.join("driver")).unwrap();
            }
        };
        assert_eq!(listed_gpus(bus.path()), Some(0));
        device("0", "0x8086", "0x030000", None);
        device("1", "0x10de", "0x040300", None);
        device("2", "0x10de", "0x030200", Some("vfio-pci"));
        assert_eq!(
            listed_gpus(bus.path()),
            Some(0),
            "another maker, sound, and one of a virtual machine"
        );
        device("3", "0x10de", "0x030000", None);
        assert_eq!(listed_gpus(bus.path()), Some(1), "no driver is loaded");
        device("4", "0x10de", "0x030200", Some("nvidia"));
        device("5", "0x10de", "0x030200", Some("nvidia"));
        assert_eq!(
            listed_gpus(bus.path()),
            Some(2),
            "the one for the screen is none of its"
        );
        assert_eq!(listed_gpus(&bus.path().join("none")), None);
    }
}
