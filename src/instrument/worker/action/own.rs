//! Actions of a process on itself and queries about itself: memory that it writes, libraries that it opens, files that
//! it holds, its output.

use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::os::fd::{FromRawFd, RawFd};
use std::sync::{Arc, Mutex};

use cuda_pitfalls_calls::{LIBRARY_FILES, status::SIM_NOT_MODELLED};

use super::values::{Values, int_argument, text, value};
use crate::mapped;
use crate::worker::state::{Worker, errno, lock};
use crate::worker::{filter, library};
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::Value;
use cuda_pitfalls_core::scenario::Step;
use cuda_pitfalls_core::text::counts::parse_digits;

pub(super) fn memset(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let pointer = lock(&worker.handles)
        .get(&text(step, "pointer"))
        .copied()
        .ok_or(22i64)?;
    let bytes = int_argument(step, "bytes").unwrap_or(0).max(0) as usize;
    // SAFETY: as sound as the scenario: if the host may not write this memory, a signal ends this process, and is
    // recorded.
    unsafe {
        libc::memset(
            pointer as *mut libc::c_void,
            int_argument(step, "value").unwrap_or(1) as i32,
            bytes,
        )
    };
    Ok(Values::new())
}

/// Opens a library for the rest of the process, or a private copy of libcuda or libcudart under a name.
pub(super) fn dlopen(worker: &Arc<Worker>, _: &Channel, step: &Step) -> Result<Values, i64> {
    let wanted = text(step, "file");
    let number = int_argument(step, "file");
    let known = LIBRARY_FILES
        .values
        .iter()
        .find(|(name, place)| *name == wanted || Some(*place) == number);
    let (file, _) = known.ok_or(22i64)?;
    if let Some(name) = &step.bind {
        let library = mapped::library(file.as_bytes()).ok_or(22i64)?;
        lock(&worker.copies).insert(name.clone(), library::open_copy(library)?);
        return Ok(Values::new());
    }
    // Left open, as programs leave the libraries that they import.
    std::mem::forget(library::open_at_run_time(file)?);
    Ok(Values::new())
}

/// Executes the step. The parent knows the rules, and has already put them into effect.
pub(super) fn seccomp(worker: &Arc<Worker>, channel: &Channel, _: &Step) -> Result<Values, i64> {
    let set_aside: Vec<RawFd> = lock(&worker.channels)
        .values()
        .map(|set_aside| set_aside.fd)
        .collect();
    filter::install_filter(channel, &set_aside)?;
    Ok(Values::new())
}

/// Fails on the simulated machine, which is a single library without device files: its process state does not apply to
/// a real driver.
fn real_driver() -> Result<(), i64> {
    if crate::mapped::is_any_simulated() {
        Err(SIM_NOT_MODELLED)
    } else {
        Ok(())
    }
}

/// Returns the file names of mapped NVIDIA libraries, without versions. The libraries of a trace are not NVIDIA's.
pub(super) fn dl_iterate_phdr(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    real_driver()?;
    let maps = std::fs::read("/proc/self/maps").map_err(|_| errno())?;
    let paths: Vec<String> = mapped::mapped_paths(&maps)
        .map(|path| String::from_utf8_lossy(&path).into_owned())
        .collect();
    let files = paths.iter().filter_map(|path| path.rsplit('/').next());
    let mut names: BTreeSet<&str> = files
        .filter_map(|file| file.split_once(".so").map(|(name, _)| name))
        .collect();
    names.retain(|name| {
        ["libcu", "libnv", "libnccl"]
            .iter()
            .any(|start| name.starts_with(start))
    });
    names.retain(|name| !name.starts_with("libcuda_pitfalls"));
    let joined = names.into_iter().collect::<Vec<_>>().join(" ");
    Ok(Values::from([(
        "libraries".to_string(),
        Value::Text(joined),
    )]))
}

/// Returns the GPU device files among the open descriptors.
pub(super) fn readdir(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    real_driver()?;
    let entries = std::fs::read_dir("/proc/self/fd").map_err(|_| errno())?;
    let links = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let files: BTreeSet<String> = links
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let gpus = files
        .iter()
        .filter_map(|file| parse_digits::<u32>(file.strip_prefix("/dev/nvidia")?));
    let mut values = value("gpus", gpus.count() as i64);
    values.extend(value(
        "control",
        i64::from(files.contains("/dev/nvidiactl")),
    ));
    values.extend(value("uvm", i64::from(files.contains("/dev/nvidia-uvm"))));
    Ok(values)
}

pub(super) fn getrusage(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    // SAFETY: the struct is plain integers, and live.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        if libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) != 0 {
            return Err(errno());
        }
        usage
    };
    Ok(value("max_rss_bytes", usage.ru_maxrss.saturating_mul(1024)))
}

/// Returns the host memory of this process, from the fields in proc_pid_status(5).
pub(super) fn proc_pid_status(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    const READ: [(&str, &str); 5] = [
        ("VmRSS:", "resident_bytes"),
        ("RssAnon:", "anonymous_bytes"),
        ("VmLck:", "locked_bytes"),
        ("VmPin:", "pinned_bytes"),
        ("VmSize:", "virtual_bytes"),
    ];
    let status = std::fs::read_to_string("/proc/self/status").map_err(|_| errno())?;
    let mut values = Values::new();
    for (field, name) in READ {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib: Option<i64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        // A kernel without the field reports nothing, and a zero would look like a figure.
        values.extend(kib.map(|kib| (name.to_string(), Value::Int(kib.saturating_mul(1024)))));
    }
    Ok(values)
}

/// The file in memory to which stdout was redirected.
static PRINTED: Mutex<Option<std::fs::File>> = Mutex::new(None);

pub(super) fn freopen(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    // SAFETY: a new descriptor, owned here, and a copy of it in place of stdout.
    let file = unsafe {
        libc::fflush(std::ptr::null_mut());
        let fd = libc::memfd_create(c"stdout".as_ptr(), libc::MFD_CLOEXEC);
        if fd == -1 || libc::dup2(fd, libc::STDOUT_FILENO) == -1 {
            return Err(errno());
        }
        std::fs::File::from_raw_fd(fd)
    };
    *lock(&PRINTED) = Some(file);
    Ok(Values::new())
}

/// Maximum number of characters of a line that are returned.
const LONGEST_LINE: usize = 200;

pub(super) fn fread(_: &Arc<Worker>, _: &Channel, _: &Step) -> Result<Values, i64> {
    // SAFETY: it flushes the streams of the C library.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    let mut printed = lock(&PRINTED);
    let file = printed.as_mut().ok_or(22i64)?;
    let mut bytes = Vec::new();
    // The position in the file is shared with stdout, which continues after what it wrote.
    let end = file.stream_position().map_err(|_| errno())?;
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|_| errno())?;
    file.seek(std::io::SeekFrom::Start(end))
        .map_err(|_| errno())?;
    let all = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = all.lines().collect();
    let mut values = value("lines", lines.len() as i64);
    values.extend(value("bytes", bytes.len() as i64));
    for (name, line) in [("first", lines.first()), ("last", lines.last())] {
        let line = line
            .copied()
            .unwrap_or_default()
            .chars()
            .take(LONGEST_LINE)
            .collect();
        values.insert(name.to_string(), Value::Text(line));
    }
    Ok(values)
}
