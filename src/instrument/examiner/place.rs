//! The environment in which CUDA has to start: the kernel's information about its driver, and the settings of this
//! process.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cuda_pitfalls_core::examination::KernelGpu;
use rustix::process::{Resource, getrlimit};

/// Variables with these prefixes can change how CUDA starts.
const BEGINNINGS: [&str; 2] = ["CUDA_", "NVIDIA_"];
/// Words in names of variables that may have a secret, such as `NVIDIA_API_KEY`.
const SECRETS: [&str; 9] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "CREDENTIAL",
    "AUTH",
    "PWD",
    "URL",
    "_PAT_",
];
/// Others that can.
const OTHERS: [&str; 4] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "GPU_DEVICE_ORDINAL",
];

/// Returns `true` if a variable can change how CUDA starts.
pub fn is_about_cuda(name: &str) -> bool {
    let upper = name.to_uppercase() + "_";
    if SECRETS.iter().any(|word| upper.contains(word)) {
        return false;
    }
    let is_mask = upper.contains("VISIBLE_DEVICE");
    is_mask
        || BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
        || OTHERS.contains(&name)
}

/// Returns the CUDA variables of this process.
pub fn environment() -> BTreeMap<String, String> {
    let all = std::env::vars_os().map(|(name, value)| {
        (
            name.to_string_lossy().into_owned(),
            value.to_string_lossy().into_owned(),
        )
    });
    all.filter(|(name, _)| is_about_cuda(name)).collect()
}

/// Returns the version of the kernel's driver.
pub fn module_version() -> Option<String> {
    // The file has the version before the words "Release Build", and in newer drivers after the name of the machine.
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let first = text.lines().next()?;
    first
        .split_whitespace()
        .find(|word| is_version(word))
        .map(str::to_string)
}

/// `580.159.04`.
fn is_version(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() >= 2
        && parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the GPUs of the kernel's driver, by device file.
pub fn gpus() -> Vec<KernelGpu> {
    let folders = fs::read_dir("/proc/driver/nvidia/gpus")
        .into_iter()
        .flatten()
        .flatten();
    let mut gpus: Vec<KernelGpu> = folders.filter_map(|folder| gpu(&folder.path())).collect();
    gpus.sort_by_key(|gpu| gpu.device_minor);
    gpus
}

fn gpu(folder: &Path) -> Option<KernelGpu> {
    let text = fs::read_to_string(folder.join("information")).ok()?;
    let uuid = status_field(&text, "GPU UUID")
        .filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?'));
    let device_minor = status_field(&text, "Device Minor")?.parse().ok()?;
    Some(KernelGpu {
        device_minor,
        uuid: uuid.map(str::to_string),
    })
}

/// Returns the major numbers of NVIDIA's character devices.
pub fn device_majors() -> BTreeMap<String, u32> {
    let text = fs::read_to_string("/proc/devices").unwrap_or_default();
    let devices = text.lines().filter_map(|line| line.trim().split_once(' '));
    let of_nvidia = devices.filter(|(_, name)| name.starts_with("nvidia"));
    of_nvidia
        .filter_map(|(major, name)| Some((name.to_string(), major.parse().ok()?)))
        .collect()
}

/// Limits of this process that are lower than they have to be, in their own units.
pub fn low_limits() -> BTreeMap<String, u64> {
    let mut low = BTreeMap::new();
    for (name, resource) in LIMITS {
        let limit = getrlimit(resource);
        let Some(current) = limit.current else {
            continue;
        };
        if limit.maximum.is_none_or(|most| most > current) {
            low.insert(name.to_string(), current);
        }
    }
    low
}

/// The limits that a start of CUDA can reach.
pub const LIMITS: [(&str, Resource); 4] = [
    ("RLIMIT_NOFILE", Resource::Nofile),
    ("RLIMIT_AS", Resource::As),
    ("RLIMIT_DATA", Resource::Data),
    ("RLIMIT_MEMLOCK", Resource::Memlock),
];

/// Returns the value of a field in a /proc file with a field in each line, such as `status`.
pub(super) fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    fields
        .find(|(field, _)| field.trim() == name)
        .map(|(_, value)| value.trim())
}

/// Returns `true` if a filter of system calls applies, by the text of a `status` file.
pub(super) fn is_filtered_in(status: &str) -> Option<bool> {
    status_field(status, "Seccomp").map(|mode| mode != "0")
}

/// Returns `true` if a filter of system calls applies to this process.
pub fn is_filtered() -> Option<bool> {
    is_filtered_in(&fs::read_to_string("/proc/self/status").ok()?)
}

/// Returns `true` if a directory has a control pipe of MPS, and both belong to root or to this user. In `/tmp` every
/// user can create a directory with the name that clients look for, or a link with that name to another user's
/// directory.
pub fn has_control_pipe(folder: &Path, user: u32) -> bool {
    [folder.to_path_buf(), folder.join("control")]
        .iter()
        .all(|path| fs::symlink_metadata(path).is_ok_and(|entry| [0, user].contains(&entry.uid())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_folder_or_a_link_of_another_user_is_no_folder_of_mps() {
        let scratch = tempfile::tempdir().unwrap();
        let [folder, control, link] =
            ["mps", "mps/control", "link"].map(|name| scratch.path().join(name));
        let user = || fs::symlink_metadata(&folder).unwrap().uid();
        fs::create_dir(&folder).unwrap();
        assert!(!has_control_pipe(&folder, user()), "there is no pipe");
        fs::write(&control, "").unwrap();
        symlink(&folder, &link).unwrap();
        let is_root = user() == 0;
        if is_root {
            [&folder, &control, &link]
                .into_iter()
                .for_each(|path| lchown(path, Some(1), None).unwrap());
        }
        for path in [&folder, &link] {
            assert!(has_control_pipe(path, user()));
            assert!(!has_control_pipe(path, user() + 1));
        }
        if is_root {
            lchown(&link, Some(2), None).unwrap();
            assert!(
                !has_control_pipe(&link, user()),
                "somebody else made the link"
            );
        }
    }

    #[test]
    fn a_version_is_numbers_between_dots() {
        assert!(is_version("580.159.04") && is_version("450.80"));
        assert!(
            !is_version("x86_64")
                && !is_version("15.3.0)")
                && !is_version("580")
                && !is_version(".")
        );
    }

    #[test]
    fn a_gpu_is_read_from_what_the_driver_says_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let text = "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-c4f2a23a-8157-e0fd-d878-6145e75535bc\nDevice Minor: \t 3\n";
        fs::write(folder.path().join("information"), text).unwrap();
        let read = gpu(folder.path()).unwrap();
        assert_eq!(read.device_minor, 3);
        assert_eq!(
            read.uuid.as_deref(),
            Some("GPU-c4f2a23a-8157-e0fd-d878-6145e75535bc")
        );
        fs::write(
            folder.path().join("information"),
            "GPU UUID: GPU-???????\nDevice Minor: 0\n",
        )
        .unwrap();
        assert_eq!(
            gpu(folder.path()).unwrap().uuid,
            None,
            "the driver has not read it yet"
        );
    }

    #[test]
    fn only_variables_about_cuda_are_kept() {
        assert!(is_about_cuda("CUDA_VISIBLE_DEVICES") && is_about_cuda("LD_PRELOAD"));
        assert!(!is_about_cuda("AWS_SECRET_ACCESS_KEY") && !is_about_cuda("HOME"));
        for name in [
            "CUDA_Authorization",
            "NVIDIA_NGC_PWD",
            "CUDA_X_PAT",
            "NVIDIA_URL",
        ] {
            assert!(!is_about_cuda(name), "{name}");
        }
        assert!(is_about_cuda("CUDA_PATH"));
    }
}
