//! The device files of NVIDIA that a process has open or mapped. On a real machine, the kernel's device number decides,
//! because a process can give any name to a file: by a mount of its own, or by deleting the name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use super::place;

/// The directory of device files.
pub const DEVICES: &str = "/dev/";
/// The major number of the GPUs and of `/dev/nvidiactl`, which never changes, and the minor number of the latter.
const GPU_MAJOR: u32 = 195;
const CONTROL_MINOR: u32 = 255;
/// The most descriptors of a process that are read, and the most tables of descriptors that its threads may have.
const MOST_FILES: usize = 1 << 20;
const MOST_TABLES: usize = 64;
const MOST_THREADS: usize = 1 << 16;
/// The most descriptors of all threads of a process that are compared.
const MOST_COMPARED: usize = 1 << 17;
/// `KCMP_FILES`: compare tables of descriptors.
const SAME_FILES: libc::c_int = 2;

/// The device files to look for.
pub(super) struct DeviceFiles {
    /// The directory of the files of a simulated machine; `None` for real ones.
    simulated: Option<String>,
    /// Names of the other drivers of NVIDIA, by major number: `nvidia-uvm`.
    drivers: BTreeMap<u32, String>,
}

impl DeviceFiles {
    pub(super) fn new(folder: &str) -> DeviceFiles {
        let mut drivers = BTreeMap::new();
        for (name, major) in place::device_majors() {
            if major != GPU_MAJOR {
                drivers.insert(major, name);
            }
        }
        let simulated = (folder != DEVICES).then(|| folder.to_owned());
        DeviceFiles { simulated, drivers }
    }

    /// Returns `true` for the files of a simulated machine.
    pub(super) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Returns the number of times that each file is open, in the table of the thread that has it open most often.
    ///
    /// # Errors
    /// Returns the error of the first table that could not be read, or an error if there are too many.
    pub(super) fn open(&self, process: &Path) -> io::Result<BTreeMap<String, u64>> {
        self.open_with(process, has_same_files)
    }

    fn open_with(
        &self,
        process: &Path,
        compare: CompareTables,
    ) -> io::Result<BTreeMap<String, u64>> {
        let (mut open, mut is_read) = (BTreeMap::new(), false);
        for table in list_tables(process, compare)? {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            let entries = match fs::read_dir(table.join("fd")) {
                Ok(entries) => entries,
                // A thread that has ended; another one may run.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            is_read = true;
            for (index, entry) in entries.flatten().enumerate() {
                if index == MOST_FILES {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                if let Some(name) = self.name_descriptor(&entry.path()) {
                    *counts.entry(name).or_default() += 1;
                }
            }
            for (name, count) in counts {
                let most = open.entry(name).or_default();
                *most = count.max(*most);
            }
        }
        if is_read {
            Ok(open)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Returns the number of mappings of each device file, by the text of a memory map.
    pub(super) fn mapped(&self, maps: &[u8]) -> BTreeMap<String, u64> {
        let mut mapped = BTreeMap::new();
        for line in maps.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let folder = self.simulated.as_deref().unwrap_or(DEVICES);
            if let Some(at) = line.find('/')
                && let Some(file) = named_file(line.get(at..).unwrap_or_default(), folder)
            {
                *mapped.entry(file).or_default() += 1;
            }
        }
        mapped
    }

    /// Returns the usual name of the device file behind a descriptor. No file is opened, and no file server gets a request.
    fn name_descriptor(&self, descriptor: &Path) -> Option<String> {
        let target = fs::read_link(descriptor).ok()?;
        let target = target.to_string_lossy();
        if let Some(folder) = &self.simulated {
            return named_file(&target, folder);
        }
        // Sockets, pipes and the like have no path.
        if !target.starts_with('/') {
            return None;
        }
        let found = statx(CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::CharacterDevice {
            return None;
        }
        self.name_device(found.stx_rdev_major, found.stx_rdev_minor)
    }

    fn name_device(&self, major: u32, minor: u32) -> Option<String> {
        if major == GPU_MAJOR && minor == CONTROL_MINOR {
            return Some(format!("{DEVICES}nvidiactl"));
        }
        if major == GPU_MAJOR {
            return Some(format!("{DEVICES}nvidia{minor}"));
        }
        match self.drivers.get(&major)?.as_str() {
            "nvidia-uvm" if minor == 0 => Some(format!("{DEVICES}nvidia-uvm")),
            "nvidia-caps" => Some(format!("{DEVICES}nvidia-caps/nvidia-cap{minor}")),
            name => Some(format!("{DEVICES}{name}:{minor}")),
        }
    }
}

/// Returns the usual name of a device file with this path.
fn named_file(path: &str, folder: &str) -> Option<String> {
    let name = path.strip_prefix(folder)?;
    name.starts_with("nvidia")
        .then(|| format!("{DEVICES}{name}"))
}

/// Compares the tables of descriptors of two threads; `None` if the kernel does not permit that.
type CompareTables = fn(libc::pid_t, libc::pid_t) -> Option<bool>;

/// Returns the directories of the threads of a process that have different tables of descriptors. Nearly always that is
/// the first thread alone.
fn list_tables(process: &Path, compare: CompareTables) -> io::Result<Vec<PathBuf>> {
    let mut tables = vec![process.to_owned()];
    let Some(pid) = thread_number(process) else {
        return Ok(tables);
    };
    let (mut numbers, mut listings, mut left) = (vec![pid], Vec::new(), MOST_COMPARED);
    let entries = fs::read_dir(process.join("task"))?;
    for entry in entries.flatten().take(MOST_THREADS) {
        let folder = entry.path();
        let Some(thread) = thread_number(&folder).filter(|thread| *thread != pid) else {
            continue;
        };
        let is_known = match compare(pid, thread) {
            Some(true) => true,
            Some(false) => numbers
                .iter()
                .any(|other| compare(*other, thread) == Some(true)),
            // Containers often deny this call. Equal descriptors are as good as the same table.
            None => {
                if listings.is_empty() {
                    listings.push(list_descriptors(process, &mut left)?);
                }
                let listing = list_descriptors(&folder, &mut left)?;
                let is_known = listings.contains(&listing);
                if !is_known {
                    listings.push(listing);
                }
                is_known
            }
        };
        if is_known {
            continue;
        }
        if tables.len() == MOST_TABLES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        numbers.push(thread);
        tables.push(folder);
    }
    Ok(tables)
}

fn thread_number(folder: &Path) -> Option<libc::pid_t> {
    folder.file_name()?.to_str()?.parse().ok()
}

fn has_same_files(one: libc::pid_t, other: libc::pid_t) -> Option<bool> {
    // SAFETY: the call compares two pointers in the kernel, and changes nothing.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, SAME_FILES, 0, 0) };
    (order >= 0).then_some(order == 0)
}

/// Returns the descriptors of a thread with their files; none if it has ended.
fn list_descriptors(thread: &Path, left: &mut usize) -> io::Result<Vec<(OsString, PathBuf)>> {
    let entries = match fs::read_dir(thread.join("fd")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        *left = left.checked_sub(1).ok_or(io::ErrorKind::FileTooLarge)?;
        let target = fs::read_link(entry.path()).unwrap_or_default();
        found.push((entry.file_name(), target));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_its_number() {
        let files = DeviceFiles {
            simulated: None,
            drivers: [
                (238, "nvidia-uvm".to_owned()),
                (241, "nvidia-caps".to_owned()),
            ]
            .into(),
        };
        for (device, name) in [
            ((195, 0), Some("/dev/nvidia0")),
            ((195, 255), Some("/dev/nvidiactl")),
            ((238, 0), Some("/dev/nvidia-uvm")),
            ((238, 1), Some("/dev/nvidia-uvm:1")),
            ((241, 2), Some("/dev/nvidia-caps/nvidia-cap2")),
            ((1, 3), None),
        ] {
            assert_eq!(files.name_device(device.0, device.1).as_deref(), name);
        }
    }

    #[test]
    fn a_table_of_one_thread_is_found_too() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("nvidia0");
        fs::write(&device, "").unwrap();
        let files = DeviceFiles::new(&format!("{}/", folder.path().display()));
        let own = PathBuf::from(format!("/proc/{}", std::process::id()));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, is_over) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: this thread gets a copy of the descriptors, and no other thread uses them.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            let _open = fs::File::open(device).unwrap();
            ready.send(()).unwrap();
            let _ = is_over.recv();
        });
        is_ready.recv().unwrap();
        let comparisons: [CompareTables; 2] = [has_same_files, |_, _| None];
        let open = comparisons.map(|compare| files.open_with(&own, compare).unwrap());
        drop(end);
        thread.join().unwrap();
        for open in open {
            assert_eq!(open, [("/dev/nvidia0".to_owned(), 1)].into());
        }
    }
}
