//! The result of `doctor`: whether CUDA starts, the causes, which accesses are denied to which user, and what to do.

mod document;

pub use document::{DoctorDocument, document};

use crate::block::{Block, Text};
use crate::words::misspelling_sentence;
use crate::writer::terminal::{PAGE, Screen, write};
use cuda_pitfalls_answers::doctor::{
    Diagnosed, DoctorState, HiddenGpu, Reasoned, StartFailure, Sureness, Trouble,
};
use cuda_pitfalls_answers::explain::explain_status;
use cuda_pitfalls_core::examination::{
    Examination, GpuState, HostState, LibraryStart, StartChange, Started,
};
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::units;

/// Merely possible causes beyond this number are only counted.
const MOST_POSSIBLE: usize = 8;

/// Returns the diagnosis for a person, on lines of the width of `screen`.
pub fn text(examination: &Examination, diagnosed: &Diagnosed, screen: impl Into<Screen>) -> String {
    let place = &examination.place;
    let mut blocks = Vec::new();
    if examination.starts.iter().any(LibraryStart::is_simulated) {
        blocks.push(Block::paragraph(
            "SIMULATED: this says nothing about real hardware.",
        ));
    }
    let standing = standing(examination, diagnosed);
    blocks.extend(standing.into_iter().map(Block::paragraph));
    let why = cause_texts(examination, diagnosed);
    let perhaps = if why.is_empty() {
        "Perhaps"
    } else {
        "Also found, possibly harmless"
    };
    let (mut next, mut possible) = (Vec::new(), Vec::new());
    for reasoned in &diagnosed.causes {
        match reasoned.sureness {
            sureness if sureness < Sureness::Next => {}
            Sureness::Next => next.push(in_words(reasoned, place).into()),
            _ => possible.push(in_words(reasoned, place).into()),
        }
    }
    let is_unknown = diagnosed.state == DoctorState::Unknown;
    let nothing_found = is_unknown && next.is_empty() && possible.is_empty();
    let more = possible.len().saturating_sub(MOST_POSSIBLE);
    possible.truncate(MOST_POSSIBLE);
    if more > 0 {
        possible.push(format!("and {more} more; --json lists them").into());
    }
    for (heading, items) in [
        ("Why", why),
        ("Also missing (would fail next)", next),
        (perhaps, possible),
    ] {
        if !items.is_empty() {
            blocks.extend([Block::heading(2, heading), Block::List(items)]);
        }
    }
    if nothing_found {
        let none = "No known cause was found: every file and system call that CUDA needs is available, and no variable changes the result.";
        blocks.extend([Block::Gap, Block::paragraph(none)]);
    }
    blocks.extend(fact_blocks(examination, diagnosed));
    write(&blocks, screen.into().at_most(PAGE))
}

/// Returns the facts other than the causes, one block each.
fn fact_blocks(examination: &Examination, diagnosed: &Diagnosed) -> Vec<Block> {
    let place = &examination.place;
    let mut blocks = Vec::new();
    for hidden in &diagnosed.hidden {
        blocks.push(Block::fact("Not shown", hidden_in_words(hidden, place)));
    }
    for start in &examination.starts {
        for GpuState { gpu, reading, .. } in &start.gpus {
            if !reading.errors.is_empty() {
                let errors = reading.errors.join(", ");
                let words = format!("memory or processes of {}: {errors}", gpu.uuid);
                blocks.push(Block::fact("Not known", words));
            }
        }
    }
    for (name, meant) in &diagnosed.misspelt {
        blocks.push(Block::fact("Misspelled", misspelling_sentence(name, meant)));
    }
    blocks.extend([Block::Gap, Block::fact("Run as", place_in_words(place))]);
    let mut more = Vec::new();
    for failure in &diagnosed.failures {
        if let Some(call) = &failure.call
            && call.status.starts_with("CUDA_")
        {
            let known = explain_status(call.code);
            blocks.extend(known.map(|known| Block::fact("Meaning", known.says)));
            let command = format!("cuda-pitfalls explain {}", call.status);
            more.push(Block::fact("More", command));
        }
    }
    blocks.append(&mut more);
    blocks
}

/// Returns the reasons why CUDA does not start here, for a user whose traced program could not start it.
pub fn causes_in_words(
    examination: &Examination,
    diagnosed: &Diagnosed,
    screen: impl Into<Screen>,
) -> String {
    let causes = cause_texts(examination, diagnosed);
    let blocks = if causes.is_empty() {
        vec![Block::paragraph(
            "CUDA did not start; `cuda-pitfalls doctor` finds no cause at the moment.",
        )]
    } else {
        vec![
            Block::heading(2, "CUDA did not start. The cause here"),
            Block::List(causes),
        ]
    };
    write(&blocks, screen.into().at_most(PAGE))
}

/// Returns the causes that are known to hold, each with its workaround.
pub(crate) fn cause_texts(examination: &Examination, diagnosed: &Diagnosed) -> Vec<Text> {
    let place = &examination.place;
    let mut causes: Vec<(String, String)> = Vec::new();
    for reasoned in &diagnosed.causes {
        if reasoned.sureness < Sureness::Next {
            let workaround = trouble_workaround(&reasoned.cause, place);
            causes.push((in_words(reasoned, place), workaround));
        }
    }
    let mut texts = Vec::new();
    for (index, (words, workaround)) in causes.iter().enumerate() {
        let mut lines = vec![words.clone()];
        // A workaround for several causes is printed once, after the last of them.
        match causes.get(index + 1) {
            Some((_, next)) if next == workaround => {}
            _ => lines.push(format!("Do: {workaround}")),
        }
        texts.push(Text::lines(lines));
    }
    texts
}

/// Returns the state of the driver and of NVML, a sentence each.
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
        let mut failures = diagnosed.failures.iter();
        let failed = failures.find(|failure| failure.library == library);
        let mut starts = examination.starts.iter();
        let start = starts.find(|start| start.library == library && start.changed.is_none());
        match (failed, start) {
            (Some(failure), start) => {
                lines.push(failed_in_words(failure));
                // Without a status, only the file distinguishes one libcuda from another.
                if failure.ended.is_some()
                    && let Some(path) = start.and_then(libcuda)
                {
                    lines.push(format!("The libcuda is {path}."));
                }
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

/// Returns the file of libcuda that a start mapped.
fn libcuda(start: &LibraryStart) -> Option<&str> {
    let mut libraries = start.libraries.iter();
    let found = libraries.find(|library| library.name == "libcuda")?;
    Some(&found.path)
}

fn worked_in_words(start: &LibraryStart) -> String {
    let gpus = counted(start.seen.len(), "GPU");
    match (start.library, libcuda(start)) {
        (Started::Driver, Some(path)) => {
            format!("CUDA starts here: context and memory on {gpus}, with {path}.")
        }
        (Started::Driver, None) => format!("CUDA starts here: context and memory on {gpus}."),
        (Started::Nvml, _) => format!("NVML starts here and reports {gpus}."),
    }
}

fn failed_in_words(failure: &StartFailure) -> String {
    let library = name(failure.library);
    match (&failure.missing, &failure.ended, &failure.call) {
        (Some(message), ..) => {
            format!("{library} could not be loaded ({message}).")
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
        (None, None, None) => format!("{library} starts here but reports no GPU."),
    }
}

/// Returns a cause, with its evidence.
fn in_words(reasoned: &Reasoned, place: &HostState) -> String {
    let what = trouble_sentence(&reasoned.cause, place);
    match (reasoned.sureness, &reasoned.cause) {
        (Sureness::Proved, _) => format!("{what} Confirmed here: without it, CUDA gets further."),
        (Sureness::Measured, Trouble::File { .. } | Trouble::SystemCall { .. }) => {
            format!("{what} Measured: denying only this causes exactly this error.")
        }
        _ => what,
    }
}

/// Returns a cause as a sentence.
fn trouble_sentence(cause: &Trouble, place: &HostState) -> String {
    match cause {
        Trouble::Environment { change, value } => {
            environment_sentence(change, value.as_deref().unwrap_or_default())
        }
        Trouble::File { path, error, mode, owner } => match error.as_str() {
            "ENOENT" => format!("{path} does not exist (ENOENT)."),
            "EMFILE" => format!("{path} cannot be opened: this process has too many open files (EMFILE)."),
            "hang" => format!("Opening {path} hangs."),
            _ => {
                let owned = match (mode, owner) {
                    (Some(mode), Some((user, group))) => format!("; its mode is {mode:o}, its owner {user}:{group}"),
                    _ => String::new(),
                };
                format!("User {} is denied access to {path} ({error}{owned}).", place.uid)
            }
        },
        Trouble::NotTheDevice { path, device: Some((major, minor)) } => {
            format!("{path} is not the NVIDIA device: its number is {major}:{minor}.")
        }
        Trouble::NotTheDevice { path, device: None } => format!("{path} exists but is not a device."),
        Trouble::NoModule => {
            "The kernel driver is not loaded or not visible from here: /proc/driver/nvidia/version does not exist."
                .to_string()
        }
        Trouble::NoGpu => "There is no NVIDIA GPU on the PCI bus.".to_string(),
        Trouble::NoLibrary { library: Started::Driver, .. } => {
            "libcuda.so.1 is not on the loader's paths.".to_string()
        }
        Trouble::NoLibrary { library: Started::Nvml, .. } => {
            "libnvidia-ml.so.1 is not on the loader's paths.".to_string()
        }
        Trouble::OtherVersion { path, version, module } => {
            format!("{path} is version {version}, but the kernel driver is {module}.")
        }
        Trouble::Stub { path } => format!("{path} is a stub for linking and cannot start CUDA."),
        Trouble::SystemCall { call, error } => {
            format!("User {} is denied the system call {call} ({error}).", place.uid)
        }
        Trouble::Exclusive { gpu, mode, pids } => {
            format!("{gpu} is in compute mode {mode}{}.", pids_in_words(pids))
        }
        Trouble::Full { gpu, free_bytes, pids } => {
            let free = units::bytes(*free_bytes);
            format!("{gpu} has {free} free{}; a context needs more.", pids_in_words(pids))
        }
        Trouble::Mig { gpu } => format!("{gpu} is in MIG mode, and no instance is visible here."),
    }
}

/// Returns the workaround for a cause.
fn trouble_workaround(cause: &Trouble, place: &HostState) -> String {
    let is_in_container = place.container.is_some();
    let workaround = match cause {
        Trouble::Environment { change, .. } => return environment_workaround(change),
        Trouble::File { path, error, .. } => return file_workaround(path, error, is_in_container),
        Trouble::NotTheDevice { path, .. } => {
            return format!(
                "create {path} again with the number in /proc/devices (`nvidia-modprobe`), or pass the real one to the container."
            );
        }
        Trouble::NoModule if is_in_container => {
            "start the container with NVIDIA's runtime (`--gpus all`), on a host with a driver."
        }
        Trouble::NoModule => "install the driver, or `modprobe nvidia`; see `dmesg` if that fails.",
        Trouble::NoGpu => "run it on a machine with a GPU.",
        Trouble::NoLibrary { .. } if is_in_container => {
            "start the container with NVIDIA's runtime, with NVIDIA_DRIVER_CAPABILITIES=compute,utility."
        }
        Trouble::NoLibrary { .. } => {
            "install the driver's libraries, or add their directory to the loader's path."
        }
        Trouble::OtherVersion { path, .. } if path.contains("compat") => {
            "remove the compatibility package from the loader's path, or use one that is newer than the driver."
        }
        Trouble::OtherVersion { .. } => {
            "use the driver libraries that match the loaded kernel module; after an update, reload the NVIDIA kernel modules or reboot."
        }
        Trouble::Stub { .. } => "remove the `stubs` directory from LD_LIBRARY_PATH at run time.",
        Trouble::SystemCall { .. } if is_in_container => {
            "allow it in the container's seccomp profile; `--security-opt seccomp=unconfined` shows whether that \
             is all. docs/refused.md shows the required profile."
        }
        Trouble::SystemCall { .. } => {
            "allow it in the sandbox or in the service's SystemCallFilter=; docs/refused.md lists all that are required."
        }
        Trouble::Exclusive { .. } => {
            "`cuda-pitfalls who` shows the process that uses it: end that, or run `nvidia-smi -c DEFAULT` as root."
        }
        Trouble::Full { .. } => {
            "`cuda-pitfalls who` shows the owners of the memory; end one, or select another GPU with CUDA_VISIBLE_DEVICES."
        }
        Trouble::Mig { .. } => "create instances (`nvidia-smi mig`) and select one by its UUID.",
    };
    workaround.to_string()
}

fn pids_in_words(pids: &[u32]) -> String {
    match pids {
        [] => String::new(),
        [pid] => format!(", and process {pid} uses it"),
        several => format!(", and processes {} use it", listed(several, "")),
    }
}

/// Returns the sentence about a cause in the environment.
fn environment_sentence(change: &StartChange, value: &str) -> String {
    match change {
        StartChange::Without { variable } => format!("{variable} is set to \"{value}\"."),
        StartChange::WithoutMps { folder } => {
            format!("The MPS control pipe in {folder} does not work.")
        }
        StartChange::WithoutFolder { folder } => {
            format!("LD_LIBRARY_PATH contains {folder}, which has another libcuda.")
        }
        StartChange::Raised { limit, was } => format!("{limit} is {was}: too low."),
        StartChange::Bare => {
            "Several variables for CUDA or the loader cause it together.".to_string()
        }
    }
}

/// Returns the workaround for a cause in the environment.
fn environment_workaround(change: &StartChange) -> String {
    match change {
        StartChange::Without { variable } if variable == "CUDA_VISIBLE_DEVICES" => {
            "unset it, or select GPUs that `nvidia-smi -L` lists here; indices count only the GPUs that are visible here."
                .to_string()
        }
        StartChange::Without { variable } => format!("unset {variable}, or correct it."),
        StartChange::WithoutMps { .. } => {
            "start its daemon (`nvidia-cuda-mps-control -d`), or set CUDA_MPS_PIPE_DIRECTORY to an empty directory."
                .to_string()
        }
        StartChange::WithoutFolder { folder } => format!("remove {folder} from LD_LIBRARY_PATH."),
        StartChange::Raised { limit, .. } => {
            format!("raise {limit} (`ulimit`, or the limits of the service or the job).")
        }
        StartChange::Bare => "unset all of them, then add them one by one.".to_string(),
    }
}

/// Returns the workaround for a file that cannot be opened.
fn file_workaround(path: &str, error: &str, is_in_container: bool) -> String {
    let workaround = match (error, path.starts_with("/dev/")) {
        ("EMFILE" | "ENFILE", _) => "raise the limit of open files (`ulimit -n`).",
        ("ENOENT", true) if is_in_container => {
            return format!("pass it to the container (`--gpus all` or `--device {path}`).");
        }
        ("ENOENT", true) if path.contains("uvm") => {
            "run `nvidia-modprobe -u -c 0` or `modprobe nvidia_uvm`."
        }
        ("ENOENT", true) => "run `nvidia-modprobe`, or pass it to the sandbox.",
        ("EPERM", true) => {
            "a device cgroup denies it: allow the device for the container, job or service (DeviceAllow=), or restart it."
        }
        ("EACCES", true) => {
            "change its mode or the user's groups; if those allow it, a security module or a nodev mount denies it."
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
        Some(cause) => trouble_sentence(cause, place),
        None => "The reason is unknown.".to_string(),
    };
    format!("{gpu} ({file}): {by}")
}

/// Returns the user, the container, and the kernel driver with its GPUs.
fn place_in_words(place: &HostState) -> String {
    let mut words = vec![format!("user {}", place.uid)];
    if let Some(container) = &place.container {
        words.push(format!("in a container ({container})"));
    }
    if place.is_filtered == Some(true) {
        words.push("with a system call filter".to_string());
    }
    words.push(match &place.module_version {
        Some(version) => {
            let gpus = counted(place.gpus.len(), "GPU");
            format!("kernel driver {version} with {gpus}")
        }
        None => "no kernel driver visible".to_string(),
    });
    words.join(", ")
}
