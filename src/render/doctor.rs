//! What `doctor` found: how CUDA stands, why, to whom what is refused, and what to do.

mod document;
mod process;

pub use document::{DoctorDocument, document, process_document};
pub use process::text as process_text;

use crate::block::{Block, Text};
use crate::words::misspelling_sentence;
use crate::writer::terminal::{PAGE, write};
use cuda_pitfalls_answers::doctor::{
    Diagnosed, DoctorState, HiddenGpu, Reasoned, StartFailure, Sureness, Trouble,
};
use cuda_pitfalls_answers::explain::explain_status;
use cuda_pitfalls_core::examination::{
    Examination, GpuState, HostState, LibraryStart, StartChange, Started,
};
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::units;

/// More causes than this that are merely possible are counted.
const MOST_POSSIBLE: usize = 8;

/// The diagnosis for a person, in lines of at most `width` columns.
pub fn text(examination: &Examination, diagnosed: &Diagnosed, width: usize) -> String {
    let place = &examination.place;
    let mut blocks = Vec::new();
    if examination.starts.iter().any(LibraryStart::is_simulated) {
        blocks.push(Block::paragraph(
            "SIMULATED: this says nothing about a real machine.",
        ));
    }
    blocks.extend(
        standing(examination, diagnosed)
            .into_iter()
            .map(Block::paragraph),
    );
    let (sure, unsure): (Vec<&Reasoned>, Vec<&Reasoned>) = diagnosed
        .causes
        .iter()
        .partition(|reasoned| reasoned.sureness < Sureness::Next);
    let (next, possible): (Vec<&Reasoned>, Vec<&Reasoned>) = unsure
        .into_iter()
        .partition(|reasoned| reasoned.sureness == Sureness::Next);
    let so_here = if sure.is_empty() {
        "Perhaps"
    } else {
        "Also so here, perhaps without effect"
    };
    let more = possible.len().saturating_sub(MOST_POSSIBLE);
    let more = (more > 0).then(|| format!("and {more} more: --json has them").into());
    let shown = possible.get(..MOST_POSSIBLE).unwrap_or(&possible);
    let [fails_next, shown] = [&next[..], shown].map(|causes| {
        let items = causes
            .iter()
            .map(|reasoned| in_words(reasoned, place).into());
        items.collect::<Vec<Text>>()
    });
    for (heading, items) in [
        ("Why", cause_texts(examination, diagnosed)),
        ("Needed too, and would fail next", fails_next),
        (so_here, shown.into_iter().chain(more).collect()),
    ] {
        if !items.is_empty() {
            blocks.extend([Block::heading(2, heading), Block::List(items)]);
        }
    }
    if diagnosed.state == DoctorState::Unknown && next.is_empty() && possible.is_empty() {
        let none = "Nothing was found here that is known to cause it: every file and every system call that is \
                    needed is given, and no variable changes it.";
        blocks.extend([Block::Gap, Block::paragraph(none)]);
    }
    blocks.extend(
        diagnosed
            .hidden
            .iter()
            .map(|hidden| Block::fact("Not shown", hidden_in_words(hidden, place))),
    );
    let states = examination.starts.iter().flat_map(|start| &start.gpus);
    blocks.extend(states.filter(|state| !state.reading.errors.is_empty()).map(
        |GpuState { gpu, reading, .. }| {
            Block::fact(
                "Not known",
                format!(
                    "memory or processes of {}: {}",
                    gpu.uuid,
                    reading.errors.join(", ")
                ),
            )
        },
    ));
    blocks.extend(
        diagnosed
            .misspelt
            .iter()
            .map(|(name, meant)| Block::fact("Misspelt", misspelling_sentence(name, meant))),
    );
    blocks.extend([Block::Gap, Block::fact("Asked by", place_in_words(place))]);
    let statuses = diagnosed
        .failures
        .iter()
        .filter_map(|failure| failure.call.as_ref());
    let of_cuda = statuses.filter(|call| call.status.starts_with("CUDA_"));
    for call in of_cuda.clone() {
        blocks.extend(explain_status(call.code).map(|known| Block::fact("Meaning", known.says)));
    }
    blocks.extend(
        of_cuda.map(|call| Block::fact("More", format!("cuda-pitfalls explain {}", call.status))),
    );
    write(&blocks, width.min(PAGE))
}

/// Why CUDA does not start here, for a person who traced a program that could not start it.
pub fn causes_in_words(examination: &Examination, diagnosed: &Diagnosed, width: usize) -> String {
    let causes = cause_texts(examination, diagnosed);
    let blocks = if causes.is_empty() {
        vec![Block::paragraph(
            "CUDA did not start; `cuda-pitfalls doctor` finds no cause now.",
        )]
    } else {
        vec![
            Block::heading(2, "CUDA did not start. The cause here"),
            Block::List(causes),
        ]
    };
    write(&blocks, width.min(PAGE))
}

/// The causes that are known to hold, each with what to do.
pub(crate) fn cause_texts(examination: &Examination, diagnosed: &Diagnosed) -> Vec<Text> {
    let place = &examination.place;
    let sure: Vec<&Reasoned> = diagnosed
        .causes
        .iter()
        .filter(|reasoned| reasoned.sureness < Sureness::Next)
        .collect();
    let workarounds: Vec<String> = sure
        .iter()
        .map(|reasoned| trouble_in_words(&reasoned.cause, place).1)
        .collect();
    let why = sure
        .iter()
        .zip(&workarounds)
        .zip(1..)
        .map(|((reasoned, workaround), next)| {
            // What helps against several is said once, behind the last of them.
            let to_do =
                (workarounds.get(next) != Some(workaround)).then(|| format!("Do: {workaround}"));
            Text::lines([in_words(reasoned, place)].into_iter().chain(to_do))
        });
    why.collect()
}

/// How the driver and NVML stand, a sentence each.
fn standing(examination: &Examination, diagnosed: &Diagnosed) -> Vec<String> {
    let mut lines = Vec::new();
    if diagnosed.state == DoctorState::NoGpu {
        lines.push(
            "This machine has no NVIDIA GPU: none is on its PCI bus, and no driver is loaded."
                .to_string(),
        );
        return lines;
    }
    for library in [Started::Driver, Started::Nvml] {
        let failed = diagnosed
            .failures
            .iter()
            .find(|failure| failure.library == library);
        let start = examination
            .starts
            .iter()
            .find(|start| start.library == library && start.changed.is_none());
        match (failed, start) {
            (Some(failure), start) => {
                lines.push(failed_in_words(failure));
                // Without a status, the file is all that tells one libcuda from another.
                let path = start.and_then(libcuda).filter(|_| failure.ended.is_some());
                lines.extend(path.map(|path| format!("The libcuda is {path}.")));
            }
            (None, Some(start)) => lines.push(worked_in_words(start)),
            (None, None) => {}
        }
    }
    lines
}

fn name(library: Started) -> &'static str {
    match library {
        Started::Driver => "CUDA",
        Started::Nvml => "NVML",
    }
}

/// The file of libcuda that a start mapped.
fn libcuda(start: &LibraryStart) -> Option<&str> {
    start
        .libraries
        .iter()
        .find(|library| library.name == "libcuda")
        .map(|library| library.path.as_str())
}

fn worked_in_words(start: &LibraryStart) -> String {
    let gpus = counted(start.seen.len(), "GPU");
    match start.library {
        Started::Driver => {
            let by = libcuda(start)
                .map(|path| format!(", by {path}"))
                .unwrap_or_default();
            format!("CUDA starts here: a context and memory on {gpus}{by}.")
        }
        Started::Nvml => format!("NVML starts here, and counts {gpus}."),
    }
}

fn failed_in_words(failure: &StartFailure) -> String {
    let library = name(failure.library);
    match (&failure.missing, &failure.ended, &failure.call) {
        (Some(message), ..) => {
            format!("{library} does not start here: its library cannot be opened ({message}).")
        }
        (None, Some(end), _) if end.by == "hang" => {
            format!(
                "{library} does not start here: {} does not return.",
                end.at.as_deref().unwrap_or("its process")
            )
        }
        (None, Some(end), _) => match &end.at {
            Some(at) => format!("{library} does not start here: {} in {at}.", end.by),
            None => format!("{library} does not start here: {}.", end.by),
        },
        (None, None, Some(call)) => {
            format!(
                "{library} does not start here: {} returns {} ({}).",
                call.call, call.status, call.code
            )
        }
        (None, None, None) => format!("{library} starts here, and counts no GPU."),
    }
}

/// A cause, with what says that it is one.
fn in_words(reasoned: &Reasoned, place: &HostState) -> String {
    let (what, _) = trouble_in_words(&reasoned.cause, place);
    match (reasoned.sureness, &reasoned.cause) {
        (Sureness::Proved, _) => format!("{what} Proved here: without it CUDA gets further."),
        (Sureness::Measured, Trouble::File { .. } | Trouble::SystemCall { .. }) => {
            format!("{what} Measured: refused alone, it causes just this error.")
        }
        _ => what,
    }
}

/// A cause in a sentence, and what to do about it.
fn trouble_in_words(cause: &Trouble, place: &HostState) -> (String, String) {
    let (what, workaround): (String, &str) = match cause {
        Trouble::Environment { change, value } => {
            return changed_in_words(change, value.as_deref().unwrap_or_default());
        }
        Trouble::File { path, error, mode, owner } => {
            let owned = match (mode, owner) {
                (Some(mode), Some((user, group))) => format!("; its mode is {mode:o}, its owner {user}:{group}"),
                _ => String::new(),
            };
            let what = match error.as_str() {
                "ENOENT" => format!("{path} is not there (ENOENT)."),
                "EMFILE" => format!("{path} cannot be opened: this process may open no more files (EMFILE)."),
                "hang" => format!("{path} cannot be opened: that does not return."),
                _ => format!("{path} is refused to user {} ({error}{owned}).", place.uid),
            };
            return (what, file_workaround(path, error, place.container.is_some()));
        }
        Trouble::NotTheDevice { path, device } => {
            let what = match device {
                Some((major, minor)) => {
                    format!("{path} is there and is not NVIDIA's device: its number is {major}:{minor}.")
                }
                None => format!("{path} is there and is no device."),
            };
            let anew = "with the number in /proc/devices (`nvidia-modprobe`), or give the real one.";
            return (what, format!("make {path} anew {anew}"));
        }
        Trouble::NoModule => (
            "The kernel's driver is not loaded, or cannot be seen from here: there is no /proc/driver/nvidia/version."
                .to_string(),
            place_workaround(
                place,
                "start the container with NVIDIA's runtime (`--gpus all`), on a host with a driver.",
                "install the driver, or `modprobe nvidia`; `dmesg` says why it fails.",
            ),
        ),
        Trouble::NoGpu => ("There is no NVIDIA GPU on the PCI bus.".to_string(), "ask on a machine with a GPU."),
        Trouble::NoLibrary { library, .. } => {
            let name = match library {
                Started::Driver => "libcuda.so.1",
                Started::Nvml => "libnvidia-ml.so.1",
            };
            let workaround = place_workaround(
                place,
                "start the container with NVIDIA's runtime, with NVIDIA_DRIVER_CAPABILITIES=compute,utility.",
                "install the driver's libraries, or add their folder to the loader's.",
            );
            (format!("{name} is on none of the loader's paths."), workaround)
        }
        Trouble::OtherVersion { path, version, module } => (
            format!("{path} is of version {version}; the kernel's driver is {module}."),
            match path.contains("compat") {
                true => {
                    "take the compatibility package out of the loader's path, or use one that is newer than the driver."
                }
                false => "use the libraries of the kernel's driver; after an update, load its modules anew or reboot.",
            },
        ),
        Trouble::Stub { path } => (
            format!("{path} is a stub: it exists to link programs, and starts nothing."),
            "take the folder `stubs` out of LD_LIBRARY_PATH at run time.",
        ),
        Trouble::SystemCall { call, error } => (
            format!("The system call {call} is refused to user {} ({error}).", place.uid),
            place_workaround(
                place,
                "allow it in the container's seccomp profile; `--security-opt seccomp=unconfined` shows whether that \
                 is all. docs/refused.md has the profile that is needed.",
                "allow it in the sandbox or in the service's SystemCallFilter=; docs/refused.md has all that are \
                 needed.",
            ),
        ),
        Trouble::Exclusive { gpu, mode, pids } => (
            format!("{gpu} is in the compute mode {mode}{}.", pids_in_words(pids)),
            "end the process that has it, or `nvidia-smi -c DEFAULT` as root.",
        ),
        Trouble::Full { gpu, free_bytes, pids } => {
            let free = format!("{} free{}", units::bytes(*free_bytes), pids_in_words(pids));
            let workaround = "end what has it, or choose another GPU by CUDA_VISIBLE_DEVICES.";
            (format!("{gpu} has {free}; a context needs more."), workaround)
        }
        Trouble::Mig { gpu } => (
            format!("{gpu} is divided by MIG, and no instance is seen here."),
            "make instances (`nvidia-smi mig`), and name one by its UUID.",
        ),
    };
    (what, workaround.to_string())
}

/// What to do about a cause: in a container, or outside of one.
fn place_workaround(
    place: &HostState,
    inside: &'static str,
    outside: &'static str,
) -> &'static str {
    if place.container.is_some() {
        inside
    } else {
        outside
    }
}

fn pids_in_words(pids: &[u32]) -> String {
    match pids {
        [] => String::new(),
        [pid] => format!(", and process {pid} has it"),
        several => format!(", and processes {} have it", listed(several, "")),
    }
}

/// What of the environment is a cause, and what to do about it.
fn changed_in_words(change: &StartChange, value: &str) -> (String, String) {
    match change {
        StartChange::Without { variable } => {
            let workaround = match variable.as_str() {
                "CUDA_VISIBLE_DEVICES" => {
                    "unset it, or name GPUs that `nvidia-smi -L` lists here; a number counts the \
                                           GPUs of this place."
                        .to_string()
                }
                _ => format!("unset {variable}, or correct it."),
            };
            (format!("{variable} is set to \"{value}\"."), workaround)
        }
        StartChange::WithoutMps { folder } => (
            format!("MPS is looked for in {folder}, where a control pipe is, and does not work."),
            "start its daemon (`nvidia-cuda-mps-control -d`), or set CUDA_MPS_PIPE_DIRECTORY to an empty folder."
                .to_string(),
        ),
        StartChange::WithoutFolder { folder } => (
            format!("LD_LIBRARY_PATH has {folder}, which has another libcuda."),
            format!("take {folder} out of LD_LIBRARY_PATH."),
        ),
        StartChange::Raised { limit, was } => (
            format!("{limit} is {was}, which is too low."),
            format!("raise {limit} (`ulimit`, or the limits of the service or the job)."),
        ),
        StartChange::Bare => (
            "Several variables together, each set for CUDA or the loader.".to_string(),
            "start with none of them, and add them one by one.".to_string(),
        ),
    }
}

/// What to do about a file that cannot be opened.
fn file_workaround(path: &str, error: &str, is_in_container: bool) -> String {
    let workaround = match (error, path.starts_with("/dev/")) {
        ("EMFILE" | "ENFILE", _) => "raise the limit of open files (`ulimit -n`).",
        ("ENOENT", true) if is_in_container => {
            return format!("give it to the container (`--gpus all`, or `--device {path}`).");
        }
        ("ENOENT", true) if path.contains("uvm") => {
            "`nvidia-modprobe -u -c 0`, or `modprobe nvidia_uvm`."
        }
        ("ENOENT", true) => "`nvidia-modprobe`, or give it to the sandbox.",
        ("EPERM", true) => {
            "a device cgroup refuses it: allow the device to the container, the job or the service (DeviceAllow=), or \
             start it anew."
        }
        ("EACCES", true) => {
            "change its mode or the user's groups; if those allow it, a security module or a mount with nodev refuses \
             it."
        }
        _ if path.starts_with("/proc/") => {
            "let the sandbox read and write the process's own files in /proc."
        }
        _ => "let the sandbox open it.",
    };
    workaround.to_string()
}

fn hidden_in_words(hidden: &HiddenGpu, place: &HostState) -> String {
    let gpu = hidden.uuid.clone().unwrap_or_else(|| "a GPU".to_string());
    let file = format!("/dev/nvidia{}", hidden.device_minor);
    let by = match &hidden.by {
        Some(cause) => trouble_in_words(cause, place).0,
        None => "It is not known why.".to_string(),
    };
    format!("{gpu} ({file}): {by}")
}

/// Who asked, and what the kernel has.
fn place_in_words(place: &HostState) -> String {
    let mut words = vec![format!("user {}", place.uid)];
    words.extend(
        place
            .container
            .as_ref()
            .map(|container| format!("in a container ({container})")),
    );
    if place.is_filtered == Some(true) {
        words.push("under a filter of system calls".to_string());
    }
    words.push(match &place.module_version {
        Some(version) => format!(
            "kernel's driver {version} with {}",
            counted(place.gpus.len(), "GPU")
        ),
        None => "no kernel driver seen".to_string(),
    });
    words.join(", ")
}
