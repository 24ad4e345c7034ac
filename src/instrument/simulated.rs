//! The simulated machine: a directory with one library under the names of libcuda, libcudart and libnvidia-ml.
//!
//! A process that finds this directory first in its `LD_LIBRARY_PATH` uses the machine described in `machine.conf`. It
//! shares `machine.state` with every other process that does. The library itself is built from `src/fake/sim`.

mod conf;
mod description;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_fake::{DRIVER, MACHINES};
use description::Description;

use crate::bounded::read_bytes;
use crate::forwarding::ForwardingOptions;
use crate::{forwarding, hook, mapped};
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::input;
use cuda_pitfalls_core::owner::is_anothers;
use cuda_pitfalls_core::scenario::environment::INJECTION_LIBRARY;
use cuda_pitfalls_core::text::escape::terminal;

/// Another name of the default machine.
const SHORT_NAME: &str = "h200";

/// The largest machine of equal GPUs, whose first GPUs make up machines of other sizes; and the prefix of their names.
const LARGEST: &str = "h200-x8";
const SIZED: &str = "h200-x";

/// A machine that only a program is started on: `cuInit` finds no GPU, and NVML shows those of the default machine. It
/// is for programs that need more of a driver than the simulated one provides, and shows whether they call `cuInit`.
pub const NO_DEVICE: &str = "no-device";

/// The driver version of [`NO_DEVICE`], which no runtime exceeds.
pub const NO_DEVICE_VERSION: u32 = 13_990;

/// Returns the results that its driver returns by itself, in the form that the forwarding library reads. After a
/// `cuInit` that failed, a driver's other functions return `CUDA_ERROR_NOT_INITIALIZED`.
pub fn no_device_returns() -> String {
    format!("cuInit=100 cuDriverGetVersion={NO_DEVICE_VERSION} *=3")
}

/// The file in the library's directory that lists the functions that it does not model. The library writes to it only
/// if the file exists.
const UNMODELLED: &str = "machine.unmodelled";

/// Returns the name of the machine with this many equal GPUs.
pub fn sized_machine(gpus: usize) -> String {
    format!("{SIZED}{gpus}")
}

/// Makes the library of a simulated machine list the functions that a program called and that it does not model.
///
/// # Errors
/// Returns an error if the file cannot be created.
pub fn tell_unmodelled(folder: &Path) -> io::Result<()> {
    fs::write(folder.join(UNMODELLED), "")
}

/// Returns the names of the missing functions that programs called since [`tell_unmodelled`].
pub fn unmodeled_functions(folder: &Path) -> BTreeSet<String> {
    let Ok(file) = fs::File::open(folder.join(UNMODELLED)) else {
        return BTreeSet::new();
    };
    // Each process writes a name once, so many processes write far more lines than there are names.
    let names = BufReader::new(file.take(MOST_UNMODELLED_BYTES)).lines();
    names.map_while(Result::ok).collect()
}

/// Maximum size of the names that are read: those of a hundred thousand processes.
const MOST_UNMODELLED_BYTES: u64 = 64 << 20;

/// Returns the folder of the simulated machine that a process uses, by its directory in `/proc`. `None` if it uses none,
/// or if somebody else may write to that folder.
pub fn folder_in_use(process: &Path) -> Option<PathBuf> {
    let maps = read_bytes(process.join("maps"), MOST_MAPS).ok()?;
    for path in mapped::mapped_paths(&maps) {
        let path = PathBuf::from(OsString::from_vec(path));
        let Some(folder) = path.parent() else {
            continue;
        };
        if path.file_name() == Some(LIBRARY_NAME.as_ref()) && is_private(folder) {
            return Some(folder.to_owned());
        }
    }
    None
}

/// Returns `true` if only this user may write to a directory and to the library in it, and nobody else may replace one
/// of the directories above.
fn is_private(folder: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    let user = rustix::process::geteuid().as_raw();
    for above in folder.ancestors().skip(1) {
        let Ok(found) = fs::symlink_metadata(above) else {
            return false;
        };
        let is_open = found.mode() & 0o022 != 0 && found.mode() & STICKY == 0;
        if is_anothers(&found) || !found.is_dir() || is_open {
            return false;
        }
    }
    [folder.to_owned(), folder.join(LIBRARY_NAME)]
        .iter()
        .all(|path| {
            let found = fs::symlink_metadata(path);
            found.is_ok_and(|found| found.uid() == user && found.mode() & 0o022 == 0)
        })
}

/// The most that is read of a process's memory map.
const MOST_MAPS: u64 = 64 << 20;

const LIBRARY_NAME: &str = "libcuda_pitfalls_sim.so";

/// Returns the names that callers and loaders use to find the three libraries.
fn library_file_names() -> impl Iterator<Item = &'static str> {
    CallLibrary::SIMULATED
        .into_iter()
        .flat_map(CallLibrary::files)
        .copied()
}

/// The size of the file for the library's table of processes, which is smaller. Zeros mean that no process holds
/// memory.
const STATE_BYTES: usize = 64 << 10;

/// The largest description. The machines here need a few KiB.
const MOST_DESCRIPTION_BYTES: u64 = 256 << 10;

/// The reason why a simulated machine could not be created.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No machine has this name or description. The text has the reason.
    #[error("{0}")]
    Machine(String),
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", terminal(&path.to_string_lossy()))]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file of the action.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Returns the error with its line. Only line breaks of the parser are kept: its message may quote a line break of the
/// description.
fn lines(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let message = error.message();
    let shown = text
        .trim_end()
        .strip_suffix(message.trim_end())
        .unwrap_or_default();
    let shown: Vec<String> = shown
        .lines()
        .map(terminal)
        .chain([terminal(message)])
        .collect();
    shown.join("\n")
}

/// Returns the names of the device files that a process opens on a machine with this `machine.conf`.
fn device_files(conf: &str) -> Vec<String> {
    let mut names = vec!["nvidiactl".to_owned(), "nvidia-uvm".to_owned()];
    let mut lines = conf.lines();
    let gpus = lines.find_map(|line| line.strip_prefix("gpus = ")?.parse::<usize>().ok());
    names.extend((0..gpus.unwrap_or(0)).map(|gpu| format!("nvidia{gpu}")));
    names
}

/// Returns the names of the built-in machines. `h200` is another name of `h200-x2`, the default.
pub fn machine_names() -> Vec<&'static str> {
    MACHINES.iter().map(|(name, _)| *name).collect()
}

/// Creates a simulated machine in `dir`, which is created if necessary, and returns the absolute path of the directory
/// of links. `machine` is a known name or the path of a description.
///
/// # Errors
/// Returns an error if the name is unknown, if the description is invalid, or if a file cannot be read or written.
pub fn lay_out(machine: &str, dir: &Path) -> Result<PathBuf, MachineError> {
    let machine = if machine == SHORT_NAME {
        defaults::MACHINE
    } else {
        machine
    };
    let conf = flatten(machine, &read(machine)?, gpus_of(machine))?;
    fs::create_dir_all(dir).map_err(failed("create", dir))?;
    let folder = fs::canonicalize(dir).map_err(failed("resolve", dir))?;
    replace_file(&folder.join(LIBRARY_NAME), DRIVER)?;
    hook::write_hook(&folder).map_err(failed("write", &folder.join(INJECTION_LIBRARY)))?;
    replace_file(&folder.join("machine.conf"), conf.as_bytes())?;
    replace_file(&folder.join("machine.state"), &vec![0; STATE_BYTES])?;
    for name in device_files(&conf) {
        replace_file(&folder.join(name), b"")?;
    }
    for name in library_file_names() {
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

/// Creates a directory with only the NVML of a simulated machine: its library has no CUDA functions.
///
/// # Errors
/// Returns an error if the name is unknown, or if a file cannot be written.
pub fn lay_out_nvml(machine: &str, dir: &Path) -> Result<PathBuf, MachineError> {
    let folder = lay_out(machine, dir)?;
    let library = folder.join(LIBRARY_NAME);
    let mut bytes = DRIVER.to_vec();
    let reduced = forwarding::leave_out(&mut bytes, &BTreeSet::new()).map_err(io::Error::other);
    reduced
        .and_then(|()| fs::write(&library, bytes))
        .map_err(failed("write", &library))?;
    for other in CallLibrary::SIMULATED
        .into_iter()
        .filter(|library| *library != CallLibrary::Nvml)
    {
        hide_library(&folder, other).map_err(failed("remove a link in", &folder))?;
    }
    Ok(folder)
}

/// Creates a libcuda of [`NO_DEVICE`] in a separate directory below `dir`, for a process that loads it by its path, and
/// returns that path. It does not report its calls: the process reads its counts.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn lay_out_stand_in(dir: &Path) -> Result<PathBuf, MachineError> {
    let node = lay_out(defaults::MACHINE, &dir.join("node"))?;
    let folder = dir.join("cuda");
    let options = ForwardingOptions::default();
    let made = forwarding::lay_out(
        &folder,
        &node.join(forwarding::NAME),
        b"",
        options,
        &no_device_returns(),
    );
    made.map_err(io::Error::other)
        .map_err(failed("write", &folder))?;
    Ok(fs::canonicalize(&folder)
        .map_err(failed("resolve", &folder))?
        .join(forwarding::NAME))
}

/// Removes a library from the directory of a simulated machine, as if the machine did not have it.
///
/// # Errors
/// Returns an error if a link cannot be removed.
pub fn hide_library(folder: &Path, library: CallLibrary) -> io::Result<()> {
    library
        .files()
        .iter()
        .map(|name| folder.join(name))
        .filter(|link| link.is_symlink())
        .try_for_each(fs::remove_file)
}

/// Returns the number of GPUs of a machine without its own description.
fn gpus_of(machine: &str) -> Option<usize> {
    let is_described = MACHINES.iter().any(|(known, _)| *known == machine);
    let gpus = machine.strip_prefix(SIZED)?.parse().ok()?;
    (!is_described && (1..=8).contains(&gpus) && machine == sized_machine(gpus)).then_some(gpus)
}

/// Returns the text of a description, by name or path.
fn read(machine: &str) -> Result<String, MachineError> {
    let machine = if gpus_of(machine).is_some() {
        LARGEST
    } else {
        machine
    };
    if machine.contains('/') || machine.ends_with(".toml") {
        let path = Path::new(machine);
        return input::read_text(path, MOST_DESCRIPTION_BYTES).map_err(|error| {
            MachineError::Machine(format!(
                "cannot read {}: {error}",
                terminal(&path.to_string_lossy())
            ))
        });
    }
    if machine == NO_DEVICE {
        let why =
            format!("the simulated machine `{NO_DEVICE}` is available only in `trace` and `sim`");
        return Err(MachineError::Machine(why));
    }
    if let Some((_, text)) = MACHINES.iter().find(|(known, _)| *known == machine) {
        return Ok((*text).to_owned());
    }
    let known = machine_names();
    let nearest = known
        .iter()
        .min_by_key(|known| strsim::osa_distance(known, machine))
        .filter(|nearest| strsim::osa_distance(nearest, machine) <= 2);
    let suggestion = nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
    Err(MachineError::Machine(format!(
        "unknown simulated machine `{}`{suggestion}. Known: {}, {NO_DEVICE} (`trace` and `sim` only), or the path of a \
         .toml file",
        terminal(machine),
        known.join(", "),
    )))
}

/// Returns the text of `machine.conf`, from the text of a description and the number of GPUs to keep, if not all are
/// kept.
#[doc(hidden)]
pub fn flatten(machine: &str, text: &str, gpus: Option<usize>) -> Result<String, MachineError> {
    let name = terminal(machine);
    let mut node: Description = toml::from_str(text).map_err(|error| {
        let why = lines(&error);
        MachineError::Machine(format!(
            "invalid description of the simulated machine `{name}`: {why}"
        ))
    })?;
    node.gpu.truncate(gpus.unwrap_or(usize::MAX));
    node.check_values()
        .and_then(|()| conf::text(machine, &node))
        .map_err(|why| {
            MachineError::Machine(format!(
                "impossible simulated machine `{name}`: {}",
                terminal(&why.to_string())
            ))
        })
}

/// Writes a file under another name and renames it, so that a process that has mapped the old file keeps it unchanged.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), MachineError> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, bytes).map_err(failed("write", &fresh))?;
    fs::rename(&fresh, path).map_err(failed("write", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MachineError {
    let path = path.to_owned();
    move |source| MachineError::File {
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
            for link in library_file_names() {
                assert_eq!(
                    fs::read(folder.join(link)).unwrap().len(),
                    DRIVER.len(),
                    "{link}"
                );
            }
            assert!(
                fs::read_to_string(folder.join("machine.conf"))
                    .unwrap()
                    .contains(&format!("machine = {name}\n"))
            );
            assert_eq!(
                fs::metadata(folder.join("machine.state")).unwrap().len(),
                STATE_BYTES as u64
            );
            // A second machine in the same place replaces the first.
            lay_out(name, &folder).unwrap();
        }
    }

    #[test]
    fn unmodelled_names_are_read_however_many_processes_wrote_them() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{}cuMemImport\n", "cuMemExport\n".repeat(40_000));
        fs::write(dir.path().join(UNMODELLED), text).unwrap();
        let names = ["cuMemExport", "cuMemImport"].map(str::to_owned);
        assert_eq!(unmodeled_functions(dir.path()), BTreeSet::from(names));
    }

    #[test]
    fn the_default_machine_has_two_gpus() {
        let dir = tempfile::tempdir().unwrap();
        let folder = lay_out("h200", dir.path()).unwrap();
        let conf = fs::read_to_string(folder.join("machine.conf")).unwrap();
        assert!(conf.contains("\nmachine = h200-x2\n"));
        assert!(conf.contains("\ngpus = 2\n"));
    }

    #[test]
    fn an_unknown_machine_names_the_nearest() {
        let error = read("h20-x8").unwrap_err().to_string();
        assert!(error.contains("did you mean `h200-x8`"), "{error}");
        assert!(error.contains("mixed-pair"), "{error}");
    }
}
