//! A watch that reports when a process opens libcuda, or the device file that libcuda and NVML open.
//!
//! The kernel reports that a file was opened, in any mount namespace, but does not identify the process.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Folders where the loader may find a second libcuda.
const FOLDERS: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/compat",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];
/// Opened by `cuInit` and by `nvmlInit` (driver 580.159.04).
const DEVICE: &str = "/dev/nvidia-uvm";

/// The files that were opened since the last check.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opened {
    pub(super) libcuda: bool,
    /// `true` if libcuda or [`DEVICE`] was opened: no process uses CUDA without one of them, whatever its root folder.
    /// Also `true` if the device file is not watched.
    pub(super) any: bool,
}

pub(super) struct DriverWatch {
    /// `None` if the kernel denied it. Then libcuda may have been opened at any moment.
    inotify: Option<OwnedFd>,
    /// The number of the watch on [`DEVICE`]; `None` if the file does not exist.
    device: Option<i32>,
}

impl DriverWatch {
    /// Watches a libcuda, and the other installed ones.
    pub(super) fn start(libcuda: Option<&Path>) -> DriverWatch {
        let Ok(inotify) = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) else {
            return DriverWatch {
                inotify: None,
                device: None,
            };
        };
        let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = FOLDERS
            .iter()
            .map(PathBuf::from)
            .chain(std::env::split_paths(&search));
        for folder in folders.filter(|folder| folder.is_absolute()) {
            watch_opens(&inotify, &folder.join("libcuda.so.1"));
        }
        let is_watched = libcuda.is_none_or(|libcuda| watch_opens(&inotify, libcuda).is_some());
        let device = watch_opens(&inotify, Path::new(DEVICE));
        DriverWatch {
            inotify: is_watched.then_some(inotify),
            device,
        }
    }

    /// Returns the files that were opened since the last call; all files if that is not known.
    pub(super) fn take_opened(&self) -> Opened {
        let Some(inotify) = &self.inotify else {
            return Opened {
                libcuda: true,
                any: true,
            };
        };
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut room);
        let mut opened = Opened {
            libcuda: false,
            any: self.device.is_none(),
        };
        while let Ok(event) = events.next() {
            opened.any = true;
            opened.libcuda |= Some(event.wd()) != self.device;
        }
        opened
    }

    /// Returns a descriptor that is readable when a file was opened.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(OwnedFd::as_fd)
    }
}

/// Returns the number of a watch on the opens of a file; `None` if the file does not exist.
fn watch_opens(inotify: &OwnedFd, path: &Path) -> Option<i32> {
    inotify::add_watch(inotify, path, WatchFlags::OPEN).ok()
}
