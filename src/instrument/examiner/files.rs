//! The device files of NVIDIA that a process has open or mapped. On a real machine, the kernel's device number decides,
//! because a process can give any name to a file: by a mount of its own, or by deleting the name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags, statx};

use super::place;
use crate::bounded::read_text;

/// The directory of device files.
pub const DEVICES: &str = "/dev/";
/// The major number of the GPUs and of `/dev/nvidiactl`, which never changes, and the minor number of the latter.
const GPU_MAJOR: u32 = 195;
const CONTROL_MINOR: u32 = 255;
/// The longest time in which the descriptors of a process are read: one with millions must not hide the others.
const MOST_TIME: Duration = Duration::from_secs(1);
/// The number of descriptors that are read however long that takes.
const FEW_FILES: usize = 1 << 10;
/// The most threads of a process, and the most different tables of descriptors that they may have.
const MOST_THREADS: usize = 1 << 16;
const MOST_TABLES: usize = 64;
/// The most attempts to read the tables or the memory of a process that changes meanwhile.
pub(super) const MOST_ATTEMPTS: usize = 5;
const MOST_INFO: u64 = 4 << 10;
/// `KCMP_FILES`: compare tables of descriptors.
const SAME_FILES: libc::c_int = 2;

/// The device files that a process has mapped.
#[derive(Debug, Default)]
pub(super) struct MappedDevices {
    /// Number of mappings of each device file.
    pub(super) counts: BTreeMap<String, u64>,
    /// Files whose mappings had all moved before they were read, by the device and the inode in the memory map.
    pub(super) moved: BTreeSet<(Option<String>, Option<String>)>,
}

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
        self.open_with(process, has_same_files, MOST_TIME)
    }

    fn open_with(
        &self,
        process: &Path,
        compare: CompareTables,
        most_time: Duration,
    ) -> io::Result<BTreeMap<String, u64>> {
        let end = Instant::now() + most_time;
        for _ in 1..MOST_ATTEMPTS {
            match self.read_tables(process, compare, end) {
                // A thread that ended may have left its descriptors to one that was not listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => return read,
            }
        }
        self.read_tables(process, compare, end)
    }

    fn read_tables(
        &self,
        process: &Path,
        compare: CompareTables,
        end: Instant,
    ) -> io::Result<BTreeMap<String, u64>> {
        let (mut open, mut read) = (BTreeMap::new(), 0);
        for table in list_tables(process, compare, MOST_THREADS)? {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for entry in fs::read_dir(table.join("fd"))? {
                read += 1;
                if read > FEW_FILES && Instant::now() > end {
                    return Err(io::Error::other("it has too many descriptors"));
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
    pub(super) fn mapped(&self, process: &Path, maps: &[u8]) -> MappedDevices {
        let (mut found, mut known) = (MappedDevices::default(), BTreeMap::new());
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
            if !known.contains_key(&file) {
                let Ok(name) = self.name_mapping(&link_of_mapping(process, range), path) else {
                    found.moved.insert(file);
                    continue;
                };
                found.moved.remove(&file);
                known.insert(file.clone(), name);
            }
            if let Some(Some(name)) = known.get(&file) {
                *found.counts.entry(name.clone()).or_default() += 1;
            }
        }
        found
    }

    /// Returns the usual name of a mapped device file, by the link to it, or by its path if the link may not be used.
    ///
    /// # Errors
    /// Returns an error if the mapping is not there any more.
    fn name_mapping(&self, link: &Path, path: &str) -> io::Result<Option<String>> {
        if let Some(folder) = &self.simulated {
            return Ok(named_file(path, folder));
        }
        match self.name_node(link) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(named_file(path, DEVICES))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
            name => Ok(name.ok().flatten()),
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
fn list_tables(
    process: &Path,
    compare: CompareTables,
    most_threads: usize,
) -> io::Result<Vec<PathBuf>> {
    let mut tables = vec![process.to_owned()];
    let Some(pid) = thread_number(process) else {
        return Ok(tables);
    };
    let mut numbers = vec![pid];
    for (index, entry) in fs::read_dir(process.join("task"))?.flatten().enumerate() {
        if index == most_threads || numbers.len() > MOST_TABLES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let folder = entry.path();
        let Some(thread) = thread_number(&folder).filter(|thread| *thread != pid) else {
            continue;
        };
        match compare(pid, thread) {
            Some(true) => continue,
            Some(false) => {
                let mut others = numbers.iter();
                if others.any(|other| compare(*other, thread) == Some(true)) {
                    continue;
                }
                numbers.push(thread);
            }
            // Containers often deny this call. Then the table of each thread is read.
            None => {}
        }
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

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
        let named = rustix::fs::open(&device, OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let number = named.as_raw_fd();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, is_over) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: this thread gets a copy of the descriptors, and no other thread uses them.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            // Under its number, the other table has a descriptor of the same file that does not count.
            let open = fs::File::open(device).unwrap();
            // SAFETY: as above; nobody owns the number in this table.
            assert_eq!(unsafe { libc::dup2(open.as_raw_fd(), number) }, number);
            drop(open);
            ready.send(()).unwrap();
            let _ = is_over.recv();
        });
        is_ready.recv().unwrap();
        let comparisons: [CompareTables; 2] = [has_same_files, |_, _| None];
        let open = comparisons.map(|compare| files.open_with(&own, compare, MOST_TIME).unwrap());
        drop(end);
        thread.join().unwrap();
        drop(named);
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
        let open = memory_devices().open_with(&process, |_, _| Some(false), MOST_TIME);
        assert_eq!(open.unwrap_err().kind(), io::ErrorKind::NotFound);
        let open = memory_devices().open_with(&process, |_, _| None, MOST_TIME);
        assert_eq!(open.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn descriptors_that_take_too_long_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("fd")).unwrap();
        for number in 0..=FEW_FILES {
            let link = folder.path().join(format!("fd/{number}"));
            std::os::unix::fs::symlink("/", link).unwrap();
        }
        let open = memory_devices().open_with(folder.path(), has_same_files, Duration::ZERO);
        assert_eq!(open.unwrap_err().kind(), io::ErrorKind::Other);
    }

    #[test]
    fn thread_beyond_the_most_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("1");
        for thread in 1..=3 {
            fs::create_dir_all(process.join(format!("task/{thread}"))).unwrap();
        }
        let tables = list_tables(&process, |_, _| Some(true), 2);
        assert_eq!(tables.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
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
        assert_eq!(mapped.counts, [("/dev/nvidia-test:5".to_owned(), 1)].into());
        assert!(mapped.moved.is_empty(), "{mapped:?}");
    }
}
