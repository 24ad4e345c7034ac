//! The folder of a trace: its libraries, its socket, and a file that its processes share with the tracer.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::guarded::{self, PlaceError};
use cuda_pitfalls_instrument::folder::Folder;
use cuda_pitfalls_instrument::forwarding::{self, ForwardingError, ForwardingOptions};
use cuda_pitfalls_instrument::traced::{CUDA_FOLDER, HOOK, VARIABLE, hook_beside};

/// The names of files in the folder (src/fake/shim/post.rs).
const SOCKET_NAME: &str = "socket";
const TALLY_NAME: &str = "tally";
/// The index of the unreported processes in the list of numbers that every process shares with the tracer
/// (src/fake/shim/post.rs): the number of the tracer's seccomp filters; the number of times that a process stopped
/// reporting, and the first of these processes; the number of loads of libcuda.
const UNREPORTED_AT: usize = 1;
const MOST_UNREPORTED: usize = 32;
const LOADS_AT: usize = UNREPORTED_AT + 1 + MOST_UNREPORTED;

/// The longest path of the folder, in bytes: a socket's path has little room (src/fake/shim/post.rs).
const LONGEST: usize = 100;

/// The maximum number of connections that can wait to be accepted; the system may allow fewer.
const WAITING: i32 = 4096;

pub(super) struct TraceFolder {
    folder: Folder,
    /// The path of the hook library, which remains after the trace.
    hook: PathBuf,
    /// The folder of the forwarding libcuda, for the front of `LD_LIBRARY_PATH`; `None` without a libcuda.
    search: Option<PathBuf>,
    listener: UnixListener,
    tally: File,
}

impl TraceFolder {
    /// Creates the folder in a place where its name can never belong to another user.
    ///
    /// # Errors
    /// Returns an error if the system denied access to every place, or other users could change it.
    pub(super) fn create() -> Result<TraceFolder, PlaceError> {
        guarded::try_folders(|place| {
            // Only a program of root may change its user.
            let is_root = geteuid().is_root();
            let folder = Folder::create_in(place, is_root).map_err(|error| {
                PlaceError(format!(
                    "cannot create a directory in {}: {error}",
                    place.display()
                ))
            })?;
            let path = folder.path();
            if path.as_os_str().len() > LONGEST {
                return Err(PlaceError(format!(
                    "the path {} is too long for a socket",
                    path.display()
                )));
            }
            let hook = hook_beside(path).ok_or_else(|| {
                PlaceError::refused(path, io::Error::other("the directory has no parent"))
            })?;
            write_hook(&hook).map_err(|error| {
                PlaceError(format!("{} could not be written: {error}", hook.display()))
            })?;
            let listener = bind_socket(&path.join(SOCKET_NAME), is_root)
                .map_err(|error| PlaceError::refused(path, error))?;
            let tally = create_tally(&path.join(TALLY_NAME))
                .map_err(|error| PlaceError::refused(path, error))?;
            Ok(TraceFolder {
                hook,
                search: None,
                listener,
                tally,
                folder,
            })
        })
    }

    /// Builds the forwarding library for the libcuda at this path. `returns` are calls that are not forwarded.
    ///
    /// # Errors
    /// Returns an error if the system denied access to a file, or if the libcuda cannot be used.
    pub(super) fn make_forwarding(
        &mut self,
        libcuda: &Path,
        options: ForwardingOptions,
        returns: &str,
    ) -> Result<(), ForwardingError> {
        let folder = self.path().join(CUDA_FOLDER);
        forwarding::lay_out(
            &folder,
            libcuda,
            self.path().as_os_str().as_bytes(),
            options,
            returns,
        )?;
        self.search = Some(folder);
        Ok(())
    }

    /// Returns the changes to the program's environment. `simulated` is the folder of the simulated machine's
    /// libraries, which the program must find too.
    pub(super) fn environment(
        &self,
        simulated: Option<&Path>,
        preload: bool,
    ) -> Vec<(OsString, OsString)> {
        let mut all = Vec::new();
        let search: Vec<&Path> = self
            .search
            .as_deref()
            .into_iter()
            .chain(simulated)
            .collect();
        let hook: Vec<&Path> = preload.then_some(&*self.hook).into_iter().collect();
        for (name, parts) in [("LD_LIBRARY_PATH", search), ("LD_PRELOAD", hook)] {
            if !parts.is_empty() {
                let inherited = std::env::var_os(name).filter(|value| !value.is_empty());
                let parts: Vec<&OsStr> = parts
                    .iter()
                    .map(|part| part.as_os_str())
                    .chain(inherited.as_deref())
                    .collect();
                all.push((OsString::from(name), parts.join(OsStr::new(":"))));
            }
        }
        // In a program that is already traced, that is the same library, which would start itself again and again.
        let earlier = std::env::var_os("CUDA_INJECTION64_PATH");
        if let Some(earlier) =
            earlier.filter(|value| !value.is_empty() && self.hook.as_os_str() != value)
        {
            all.push((
                OsString::from("CUDA_PITFALLS_EARLIER_INJECTION64_PATH"),
                earlier,
            ));
        }
        all.push((
            OsString::from("CUDA_INJECTION64_PATH"),
            self.hook.clone().into_os_string(),
        ));
        all.push((
            OsString::from(VARIABLE),
            self.path().as_os_str().to_os_string(),
        ));
        all
    }

    /// Returns a second handle on the socket for messages.
    pub(super) fn clone_listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the paths of the trace's own libraries, whose frames are left out of stacks.
    pub(super) fn libraries(&self) -> Vec<String> {
        let all = self.search.iter().chain([&self.hook]);
        all.map(|path| path.to_string_lossy().into_owned())
            .collect()
    }

    /// Returns the path of the hook library.
    pub(super) fn hook_path(&self) -> &Path {
        &self.hook
    }

    /// Returns the end of the path of the file that every reporting process maps.
    pub(super) fn shared_file(&self) -> String {
        let name = self.path().file_name().unwrap_or_default();
        format!("/{}/{TALLY_NAME}", name.display())
    }

    /// Returns the processes that stopped reporting; `None` if the list cannot be read.
    pub(super) fn unreported_processes(&self) -> Option<UnreportedProcesses> {
        let [words @ .., _] = &self.shared_numbers()?;
        let (count, processes) = words.get(UNREPORTED_AT..)?.split_first()?;
        let named = processes.iter().filter(|process| **process != 0);
        let (other_libcuda, silent) = named.partition(|process| **process & 1 == 1);
        Some(UnreportedProcesses {
            count: *count,
            silent: pids_of(silent),
            other_libcuda: pids_of(other_libcuda),
        })
    }

    /// Returns the number of times that a process of the trace loaded libcuda.
    pub(super) fn libcuda_loads(&self) -> Option<u64> {
        self.shared_numbers().map(|words| words[LOADS_AT])
    }

    fn shared_numbers(&self) -> Option<[u64; LOADS_AT + 1]> {
        let mut bytes = [0; (LOADS_AT + 1) * size_of::<u64>()];
        self.tally.read_exact_at(&mut bytes, 0).ok()?;
        let mut words = [0; LOADS_AT + 1];
        words
            .iter_mut()
            .zip(bytes.as_chunks().0)
            .for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
        Some(words)
    }
}

/// Processes with unreported actions, by their own PIDs.
pub(super) struct UnreportedProcesses {
    pub(super) count: u64,
    pub(super) silent: Vec<u64>,
    pub(super) other_libcuda: Vec<u64>,
}

fn pids_of(processes: Vec<&u64>) -> Vec<u64> {
    processes.into_iter().map(|process| process >> 1).collect()
}

impl UnreportedProcesses {
    pub(super) fn named(&self) -> u64 {
        (self.silent.len() + self.other_libcuda.len()) as u64
    }
}

/// Writes the hook library if it does not exist. Another trace may write it at the same moment.
fn write_hook(hook: &Path) -> io::Result<()> {
    let folder = hook.parent().unwrap_or(hook);
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if !is_kept(hook) {
        let mut new = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o755))
            .tempfile_in(folder)?;
        new.write_all(HOOK)?;
        // The umask may have removed permissions.
        new.as_file()
            .set_permissions(Permissions::from_mode(0o755))?;
        new.persist(hook)?;
    }
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Returns `true` if the hook library exists and is complete.
fn is_kept(hook: &Path) -> bool {
    let mut bytes = Vec::new();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(hook);
    let read = file.and_then(|file| {
        let data = file.metadata()?;
        let is_ours =
            data.is_file() && data.uid() == geteuid().as_raw() && data.mode() & 0o777 == 0o755;
        if is_ours {
            file.take(HOOK.len() as u64 + 1).read_to_end(&mut bytes)?;
        }
        Ok(())
    });
    read.is_ok() && bytes == HOOK
}

/// Creates the socket for messages. The tracer identifies its peers. If `is_open`, the program may change its user.
fn bind_socket(socket: &Path, is_open: bool) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(socket)?;
    // A second call, because the standard library's limit on waiting connections is too small.
    rustix::net::listen(&listener, WAITING)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(
        socket,
        Permissions::from_mode(if is_open { 0o666 } else { 0o600 }),
    )?;
    Ok(listener)
}

/// Creates the file that every process shares with the tracer. It is written in full, so that a full disk causes no
/// fault in a process that maps it.
fn create_tally(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut page = vec![0; 4096];
    let filters = seccomp_filter_count().unwrap_or(u64::MAX).to_ne_bytes();
    page.iter_mut()
        .zip(filters)
        .for_each(|(to, from)| *to = from);
    file.write_all(&page)?;
    // Other users may read the number of filters, but write nothing.
    file.set_permissions(Permissions::from_mode(0o644))?;
    Ok(file)
}

/// Returns the number of seccomp filters of this process; `None` if the kernel does not report it.
fn seccomp_filter_count() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp_filters:")?.trim().parse().ok())
}
