//! The simulated node: a folder that holds one library under the names of libcuda, libcudart and libnvidia-ml.
//!
//! A process that finds this folder first in its `LD_LIBRARY_PATH` talks to the machine described in `node.conf` and shares
//! `node.state` with every other process that does. The library itself lives in `sim/`; it is embedded here as bytes.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What `h200`, the machine used when none is named, stands for.
const DEFAULT_MACHINE: (&str, &str) = ("h200", "h200-x2");

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_node.so"));
const LIBRARY_NAME: &str = "libcuda_pitfalls_node.so";

/// The names under which callers and loaders look for the three libraries.
const LINKS: [&str; 8] = [
    "libcuda.so",
    "libcuda.so.1",
    "libcudart.so",
    "libcudart.so.13",
    "libcudart.so.12",
    "libcudart.so.11.0",
    "libnvidia-ml.so",
    "libnvidia-ml.so.1",
];

/// Room for the library's table of processes, which is smaller; all zero means that nobody holds anything.
const STATE_BYTES: usize = 64 << 10;

/// The library's table has this many columns.
const MAX_GPUS: usize = 16;

const MACHINES: [(&str, &str); 5] = [
    ("h200-x1", include_str!("../sim/machines/h200-x1.toml")),
    ("h200-x2", include_str!("../sim/machines/h200-x2.toml")),
    ("h200-x4", include_str!("../sim/machines/h200-x4.toml")),
    ("h200-x8", include_str!("../sim/machines/h200-x8.toml")),
    (
        "mixed-pair",
        include_str!("../sim/machines/mixed-pair.toml"),
    ),
];

/// Why a simulated node could not be laid out.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No machine has this name.
    #[error(
        "there is no simulated machine `{name}`; did you mean `{nearest}`? Known are: {known} (or the path of a .toml file)"
    )]
    UnknownMachine {
        /// What was asked for.
        name: String,
        /// The known name that looks most like it.
        nearest: &'static str,
        /// All known names.
        known: String,
    },
    /// A description is not what the format asks for.
    #[error("the description of the simulated machine `{machine}` is not valid: {source}")]
    Description {
        /// The name or path of the description.
        machine: String,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A description reads well but describes no possible machine.
    #[error("the simulated machine `{machine}` is not possible: {why}")]
    Impossible {
        /// The name or path of the description.
        machine: String,
        /// What is wrong.
        why: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The names of the machines that come with cuda-pitfalls. `h200` is another name of `h200-x2`, the default.
pub fn machine_names() -> Vec<&'static str> {
    MACHINES.iter().map(|(name, _)| *name).collect()
}

/// Lays out a node in `dir`, which is made if need be, and returns the absolute path of the folder of links. `machine` is a known
/// name or the path of a description.
pub fn lay_out(machine: &str, dir: &Path) -> Result<PathBuf, NodeError> {
    let machine = if machine == DEFAULT_MACHINE.0 {
        DEFAULT_MACHINE.1
    } else {
        machine
    };
    let conf = flatten(machine, &read(machine)?)?;
    fs::create_dir_all(dir).map_err(failed("create", dir))?;
    let folder = fs::canonicalize(dir).map_err(failed("resolve", dir))?;
    put(&folder.join(LIBRARY_NAME), LIBRARY)?;
    put(&folder.join("node.conf"), conf.as_bytes())?;
    put(&folder.join("node.state"), &vec![0; STATE_BYTES])?;
    for name in LINKS {
        let link = folder.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("replace", &link)(error));
            }
            _ => symlink(LIBRARY_NAME, &link).map_err(failed("create", &link))?,
        }
    }
    Ok(folder)
}

/// One machine as its file describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    driver_version: String,
    cuda_driver_version: u32,
    cuda_runtime_version: u32,
    #[serde(default = "mib::<2>")]
    alloc_granularity_bytes: u64,
    #[serde(default = "mib::<32>")]
    pool_granularity_bytes: u64,
    #[serde(default = "mib::<8>")]
    malloc_heap_bytes: u64,
    #[serde(default = "default_stack")]
    stack_bytes: u64,
    #[serde(default = "mib::<1>")]
    printf_fifo_bytes: u64,
    /// What loading a module takes, beside the context.
    #[serde(default)]
    module_bytes: u64,
    #[serde(default)]
    models: BTreeMap<String, Model>,
    /// In PCI order, which is NVML's order. None at all is a node whose driver finds no device.
    #[serde(default)]
    gpu: Vec<Gpu>,
}

/// What all GPUs of one kind have in common.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    name: String,
    total_bytes: u64,
    /// The part of the total that the driver keeps for itself.
    reserved_bytes: u64,
    /// What one context takes.
    context_bytes: u64,
    /// What `cuInit` alone takes.
    #[serde(default)]
    init_bytes: u64,
    compute_capability: String,
    sm_count: u32,
    max_threads_per_sm: u32,
    /// 1 is the fastest; CUDA's default order goes by it.
    speed_rank: u32,
    pci_device_id: u32,
    /// GPUs of one group reach each other's memory; 0 is no group.
    peer_group: u32,
    mig_capable: bool,
    persistence_mode: bool,
}

/// One GPU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gpu {
    model: String,
    uuid: String,
    pci_bus_id: String,
}

fn mib<const N: u64>() -> u64 {
    N << 20
}

fn default_stack() -> u64 {
    1024
}

/// The text of a description, by name or path.
fn read(machine: &str) -> Result<String, NodeError> {
    if machine.contains('/') || machine.ends_with(".toml") {
        return fs::read_to_string(machine).map_err(failed("read", Path::new(machine)));
    }
    match MACHINES.iter().find(|(known, _)| *known == machine) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => {
            let known = machine_names();
            let nearest = known
                .iter()
                .copied()
                .min_by_key(|known| strsim::osa_distance(known, machine));
            Err(NodeError::UnknownMachine {
                name: machine.to_owned(),
                nearest: nearest.unwrap_or(DEFAULT_MACHINE.1),
                known: known.join(", "),
            })
        }
    }
}

/// The description as `node.conf`: a line per value, so that the library can read it without a parser for TOML.
fn flatten(machine: &str, text: &str) -> Result<String, NodeError> {
    let description: Description =
        toml::from_str(text).map_err(|source| NodeError::Description {
            machine: machine.to_owned(),
            source: Box::new(source),
        })?;
    lines(machine, &description).map_err(|why| NodeError::Impossible {
        machine: machine.to_owned(),
        why,
    })
}

fn lines(machine: &str, node: &Description) -> Result<String, String> {
    let mut conf =
        String::from("# Written by cuda-pitfalls for the simulated node beside it.\nformat = 1\n");
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        let value = value.to_string();
        if value.is_empty() || value.contains(char::is_control) {
            return Err(format!("`{key}` must be one line of text, and not empty"));
        }
        writeln!(conf, "{key} = {value}").map_err(|error| error.to_string())
    };
    line(
        "machine",
        &Path::new(machine).file_stem().unwrap_or_default().display(),
    )?;
    line("driver_version", &node.driver_version)?;
    line("cuda_driver_version", &node.cuda_driver_version)?;
    line("cuda_runtime_version", &node.cuda_runtime_version)?;
    line("alloc_granularity_bytes", &node.alloc_granularity_bytes)?;
    line("pool_granularity_bytes", &node.pool_granularity_bytes)?;
    line("malloc_heap_bytes", &node.malloc_heap_bytes)?;
    line("stack_bytes", &node.stack_bytes)?;
    line("printf_fifo_bytes", &node.printf_fifo_bytes)?;
    line("module_bytes", &node.module_bytes)?;
    if node.gpu.len() > MAX_GPUS {
        return Err(format!(
            "it has {} GPUs, and {MAX_GPUS} is the most",
            node.gpu.len()
        ));
    }
    line("gpus", &node.gpu.len())?;
    for (index, gpu) in node.gpu.iter().enumerate() {
        let model = node.models.get(&gpu.model).ok_or_else(|| {
            format!(
                "GPU {index} is of the model `{}`, which is not described",
                gpu.model
            )
        })?;
        let before = &node.gpu[..index];
        if before.iter().any(|other| other.uuid == gpu.uuid) {
            return Err(format!("two GPUs have the uuid `{}`", gpu.uuid));
        }
        // Both forms have fixed widths and the same case, so that the order of texts is the order of addresses.
        if before
            .last()
            .is_some_and(|other| other.pci_bus_id >= gpu.pci_bus_id)
        {
            return Err(format!(
                "GPU {index} (`{}`) is not in PCI order",
                gpu.pci_bus_id
            ));
        }
        let (major, minor) = capability(&model.compute_capability)?;
        let mut line =
            |key: &str, value: &dyn std::fmt::Display| line(&format!("gpu.{index}.{key}"), value);
        line("uuid", &uuid(&gpu.uuid)?)?;
        line("pci_bus_id", &pci_bus_id(&gpu.pci_bus_id)?)?;
        line("name", &model.name)?;
        line("total_bytes", &model.total_bytes)?;
        line("reserved_bytes", &model.reserved_bytes)?;
        line("context_bytes", &model.context_bytes)?;
        line("init_bytes", &model.init_bytes)?;
        line("capability_major", &major)?;
        line("capability_minor", &minor)?;
        line("sm_count", &model.sm_count)?;
        line("max_threads_per_sm", &model.max_threads_per_sm)?;
        line("speed_rank", &model.speed_rank)?;
        line("pci_device_id", &model.pci_device_id)?;
        line("peer_group", &model.peer_group)?;
        line("mig_capable", &model.mig_capable)?;
        line("persistence_mode", &model.persistence_mode)?;
    }
    Ok(conf)
}

/// A UUID in NVIDIA's form, in lower case, as NVML prints it.
fn uuid(text: &str) -> Result<&str, String> {
    let lengths = text
        .strip_prefix("GPU-")
        .map(|rest| rest.split('-').map(str::len).collect::<Vec<_>>());
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f' | '-');
    if lengths.as_deref() == Some(&[8, 4, 4, 4, 12]) && text["GPU-".len()..].chars().all(is_digit) {
        return Ok(text);
    }
    Err(format!(
        "`{text}` is no uuid of the form GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx with lower-case digits"
    ))
}

/// A PCI address as NVML prints it.
fn pci_bus_id(text: &str) -> Result<&str, String> {
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
        return Ok(text);
    }
    Err(format!(
        "`{text}` is no PCI address of the form 00000000:1B:00.0 with upper-case digits"
    ))
}

fn capability(text: &str) -> Result<(u32, u32), String> {
    let parts = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| format!("`{text}` is no compute capability such as 9.0"))
}

/// Writes a file beside its name and renames it, so that a process that has the old one mapped keeps it whole.
fn put(path: &Path, bytes: &[u8]) -> Result<(), NodeError> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, bytes).map_err(failed("write", &fresh))?;
    fs::rename(&fresh, path).map_err(failed("write", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NodeError {
    let path = path.to_owned();
    move |source| NodeError::File {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_is_laid_out_with_all_links() {
        for name in machine_names() {
            let dir = tempfile::tempdir().unwrap();
            let folder = lay_out(name, &dir.path().join("node")).unwrap();
            for link in LINKS {
                assert_eq!(
                    fs::read(folder.join(link)).unwrap().len(),
                    LIBRARY.len(),
                    "{link}"
                );
            }
            assert!(
                fs::read_to_string(folder.join("node.conf"))
                    .unwrap()
                    .contains(&format!("machine = {name}\n"))
            );
            assert_eq!(
                fs::metadata(folder.join("node.state")).unwrap().len(),
                STATE_BYTES as u64
            );
            // A second node in the same place replaces the first.
            lay_out(name, &folder).unwrap();
        }
    }

    #[test]
    fn the_default_machine_has_two_gpus() {
        let dir = tempfile::tempdir().unwrap();
        let folder = lay_out("h200", dir.path()).unwrap();
        let conf = fs::read_to_string(folder.join("node.conf")).unwrap();
        assert!(conf.contains("\nmachine = h200-x2\n"));
        assert!(conf.contains("\ngpus = 2\n"));
    }

    #[test]
    fn an_unknown_machine_names_the_nearest() {
        let error = read("h20-x8").unwrap_err().to_string();
        assert!(error.contains("did you mean `h200-x8`"), "{error}");
        assert!(error.contains("mixed-pair"), "{error}");
    }

    #[test]
    fn a_description_is_held_to_its_form() {
        let good = read("h200-x2").unwrap();
        for (from, to, says) in [
            ("sm_count", "sm_cuont", "sm_cuont"),
            ("000000000002", "000000000001", "two GPUs"),
            (":43:", ":03:", "PCI order"),
            (":43:", ":4z:", "no PCI address"),
            (
                "GPU-00000000-0000-4000-8000-000000000002",
                "GPU-2",
                "no uuid",
            ),
            ("\"9.0\"", "\"nine\"", "compute capability"),
            ("model = \"h200\"", "model = \"h300\"", "not described"),
        ] {
            let error = flatten("test", &good.replace(from, to))
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
    }
}
