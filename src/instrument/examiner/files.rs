//! The device files of NVIDIA that a process has open or mapped. On a real machine, the kernel's device number decides,
//! because a process can give any name to a file: by a mount of its own, or by deleting the name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags, statx};

use super::place;
use crate::bounded::read_text;

/// The directory of device files.
pub const DEVICES: &str = "/dev/";
/// The major number of the GPUs and of `/dev/nvidiactl`, which never changes, and the minor number of the latter.
const GPU_MAJOR: u32 = 195;
const CONTROL_MINOR: u32 = 255;
/// The most descriptors of a process that are read, and the most tables of descriptors that its threads may have.
const MOST_FILES: usize = 1 << 20;
const MOST_TABLES: usize = 64;
const MOST_THREADS: usize = 1 << 16;
/// The most attempts to read the tables of a process whose threads end meanwhile.
const MOST_ATTEMPTS: usize = 5;
const MOST_INFO: u64 = 4 << 10;
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
    /// Returns the error of the first descriptor that could not be read, or an error if there are too many.
    pub(super) fn open(&self, process: &Path) -> io::Result<BTreeMap<String, u64>> {
        self.open_with(process, has_same_files)
    }

    fn open_with(
        &self,
        process: &Path,
        compare: CompareTables,
    ) -> io::Result<BTreeMap<String, u64>> {
        for _ in 1..MOST_ATTEMPTS {
            match self.read_tables(process, compare) {
                // A thread that ended may have left its descriptors to one that was not listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => return read,
            }
        }
        self.read_tables(process, compare)
    }

    fn read_tables(
        &self,
        process: &Path,
        compare: CompareTables,
    ) -> io::Result<BTreeMap<String, u64>> {
        let mut open = BTreeMap::new();
        for table in list_tables(process, compare)? {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for (index, entry) in fs::read_dir(table.join("fd"))?.enumerate() {
                if index == MOST_FILES {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                match self.name_descriptor(&table, &entry?.file_name()) {
                    Ok(Some(name)) => *counts.entry(name).or_default() += 1,
                    Ok(None) => {}
                    // It was closed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            // The thread ended meanwhile.
            fs::metadata(&table)?;
            for (name, count) in counts {
                let most = open.entry(name).or_default();
                *most = count.max(*most);
            }
        }
        Ok(open)
    }

    /// Returns the number of mappings of each device file, by the text of the memory map of a process.
    pub(super) fn mapped(&self, process: &Path, maps: &[u8]) -> BTreeMap<String, u64> {
        let (mut mapped, mut known) = (BTreeMap::new(), BTreeMap::new());
        for line in maps.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let mut fields = line.splitn(6, ' ');
            let Some(range) = fields.next() else { continue };
            let (device, inode) = (fields.nth(2), fields.next());
            // Anonymous memory.
            if inode.is_none_or(|inode| inode == "0") {
                continue;
            }
            let path = fields.next().unwrap_or_default().trim_start();
            let file = (device.map(str::to_owned), inode.map(str::to_owned));
            let name = known
                .entry(file)
                .or_insert_with(|| self.name_mapping(&link_of_mapping(process, range), path));
            if let Some(name) = name {
                *mapped.entry(name.clone()).or_default() += 1;
            }
        }
        mapped
    }

    /// Returns the usual name of a mapped device file, by the link to it, or by its path if the link may not be used.
    fn name_mapping(&self, link: &Path, path: &str) -> Option<String> {
        match &self.simulated {
            Some(folder) => named_file(path, folder),
            None => match self.name_node(link) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    named_file(path, DEVICES)
                }
                name => name.ok().flatten(),
            },
        }
    }

    /// Returns the usual name of the device file behind a descriptor; `None` for any other file.
    fn name_descriptor(&self, table: &Path, number: &OsStr) -> io::Result<Option<String>> {
        let link = table.join("fd").join(number);
        let name = match &self.simulated {
            Some(folder) => named_file(&fs::read_link(link)?.to_string_lossy(), folder),
            None => self.name_node(&link)?,
        };
        // With `O_PATH` the driver is not opened.
        let is_open = name.is_some() && !is_path_only(&table.join("fdinfo").join(number));
        Ok(if is_open { name } else { None })
    }

    /// Returns the usual name of a device file, without opening it or sending a request to a file server. No fields are
    /// requested: for them, a FUSE file system of another user would return an error.
    fn name_node(&self, link: &Path) -> io::Result<Option<String>> {
        let found = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::CharacterDevice {
            return Ok(None);
        }
        Ok(self.name_device(found.stx_rdev_major, found.stx_rdev_minor))
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

/// Returns the link to the file of a mapping. Unlike the range in the memory map, its name has no leading zeros.
pub(super) fn link_of_mapping(process: &Path, range: &str) -> PathBuf {
    let ends: Vec<&str> = range
        .split('-')
        .map(|end| end.trim_start_matches('0'))
        .collect();
    process.join("map_files").join(ends.join("-"))
}

fn is_path_only(info: &Path) -> bool {
    let info = read_text(info, MOST_INFO);
    let flags = place::status_field(&info, "flags").unwrap_or_default();
    u32::from_str_radix(flags, 8).is_ok_and(|flags| flags & OFlags::PATH.bits() != 0)
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

/// Returns the descriptors of a thread with their files.
fn list_descriptors(thread: &Path, left: &mut usize) -> io::Result<Vec<(OsString, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(thread.join("fd"))?.flatten() {
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
        let own = own_folder();
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

    /// Returns files that call the devices of memory a driver of NVIDIA.
    fn memory_devices() -> DeviceFiles {
        DeviceFiles {
            simulated: None,
            drivers: [(1, "nvidia-test".to_owned())].into(),
        }
    }

    fn own_folder() -> PathBuf {
        PathBuf::from(format!("/proc/{}", std::process::id()))
    }

    #[test]
    fn descriptor_that_only_names_a_device_does_not_count() {
        let _open = fs::File::open("/dev/zero").unwrap();
        let named = rustix::fs::open("/dev/full", OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let open = memory_devices().open(&own_folder()).unwrap();
        assert_eq!(open.get("/dev/nvidia-test:5"), Some(&1));
        assert_eq!(open.get("/dev/nvidia-test:7"), None);
        drop(named);
    }

    #[test]
    fn descriptor_without_a_readable_name_is_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let fd = folder.path().join("fd");
        fs::create_dir(&fd).unwrap();
        // No error of a link makes it another file.
        std::os::unix::fs::symlink("9", fd.join("9")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", fd.join("8")).unwrap();
        assert!(memory_devices().open(folder.path()).is_err());
        fs::remove_file(fd.join("9")).unwrap();
        let open = memory_devices().open(folder.path()).unwrap();
        assert_eq!(open, [("/dev/nvidia-test:5".to_owned(), 1)].into());
    }

    #[test]
    fn thread_that_ends_while_it_is_read_is_no_thread_without_files() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("1");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::create_dir_all(process.join("task/2")).unwrap();
        let open = memory_devices().open_with(&process, |_, _| Some(false));
        assert_eq!(open.unwrap_err().kind(), io::ErrorKind::NotFound);
        let open = memory_devices().open_with(&process, |_, _| None);
        assert_eq!(open.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn device_number_decides_what_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let links = folder.path().join("map_files");
        fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink("/dev/zero", links.join("1000-2000")).unwrap();
        fs::write(links.join("3000-4000"), "").unwrap();
        let maps = b"00001000-00002000 rw-s 00000000 00:06 117     /tmp/foo\n\
            00003000-00004000 rw-s 00000000 00:07 9      /dev/nvidia0\n\
            00005000-00006000 rw-p 00000000 00:00 0      [anon:/dev/nvidia0]\n";
        let mapped = memory_devices().mapped(folder.path(), maps);
        assert_eq!(mapped, [("/dev/nvidia-test:5".to_owned(), 1)].into());
    }
}
