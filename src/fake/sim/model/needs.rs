//! Files and system calls that CUDA and NVML need, as `survey needs` measured them on an H100
//! (reports/survey-needs-h100-x1).
//!
//! The simulated driver opens no device file. If a filter answers the system calls of this process (a `seccomp` step),
//! it requests each of its needs under a directory that does not exist, and the filter answers whether a step denies
//! it.

use crate::c;
use crate::model::status::*;
use std::ffi::CString;

/// The directory that represents `/` of the simulated machine; the filter knows it (`cuda_pitfalls_core::refusal`).
const ROOT: &str = "/cuda-pitfalls-sim";
/// `EISNAM`: the filter's answer for a file in that directory that no rule denies.
const THERE: i32 = 120;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENOSYS: i32 = 38;

/// A system call by its number on x86-64.
#[derive(Clone, Copy)]
struct SystemCall(i64);

const POLL: SystemCall = SystemCall(7);
const IOCTL: SystemCall = SystemCall(16);
const DUP: SystemCall = SystemCall(32);
const FCNTL: SystemCall = SystemCall(72);
const CLONE3: SystemCall = SystemCall(435);
const EVENTFD2: SystemCall = SystemCall(290);
const PIPE2: SystemCall = SystemCall(293);
const OPENAT: SystemCall = SystemCall(257);
const STAT: SystemCall = SystemCall(4);
const FSTAT: SystemCall = SystemCall(5);
const GET_MEMPOLICY: SystemCall = SystemCall(239);

/// System calls that make `cuInit` return 304 if they are denied, in addition to those that a context needs too:
/// socket, bind, listen, uname, unlink, gettid.
const INIT_ALONE: [SystemCall; 6] = [
    SystemCall(41),
    SystemCall(49),
    SystemCall(50),
    SystemCall(63),
    SystemCall(87),
    SystemCall(186),
];
/// System calls that make `cuInit`, and later the first context, return 304 if they are denied.
const INIT_AND_CONTEXT: [SystemCall; 4] = [EVENTFD2, FCNTL, PIPE2, POLL];

/// The error of something that is denied; `None` if it is allowed.
type Refused = Option<i32>;

impl SystemCall {
    /// Makes the call with arguments that no kernel accepts.
    fn refused(self) -> Refused {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        Some(c::bad_call(self.0)).filter(|errno| [EPERM, ENOSYS].contains(errno))
    }
}

/// Returns `true` if a filter answers for the simulated machine.
fn is_watched() -> bool {
    // If `open` itself is denied, its error differs.
    open("") != ENOENT
}

fn open(path: &str) -> i32 {
    CString::new(format!("{ROOT}{path}")).map_or(0, |path| c::open_error(&path))
}

fn file(path: &str) -> Refused {
    Some(open(path)).filter(|errno| *errno != THERE)
}

fn gpu_file(gpu: usize) -> Refused {
    file(&format!("/dev/nvidia{gpu}"))
}

fn fails(is_refused: bool, code: u32) -> Outcome {
    if is_refused { Err(code) } else { Ok(()) }
}

/// Checks the requirements of `cuInit`, before it looks for GPUs.
pub fn check_init() -> Outcome {
    if !is_watched() {
        return Ok(());
    }
    let every_call = INIT_ALONE.iter().chain(&INIT_AND_CONTEXT).chain([&OPENAT]);
    fails(
        every_call.filter(|call| call.refused().is_some()).count() > 0,
        OPERATING_SYSTEM,
    )?;
    fails(file("/proc/self/maps").is_some(), OUT_OF_MEMORY)?;
    // The C library creates its threads by another call if it does not have this one.
    fails(CLONE3.refused() == Some(EPERM), OPERATING_SYSTEM)?;
    fails(file("/proc/self/task/1/comm").is_some(), OPERATING_SYSTEM)?;
    fails(
        file("/dev/nvidiactl").is_some()
            || [IOCTL, STAT].iter().any(|call| call.refused().is_some()),
        NO_DEVICE,
    )?;
    fails(file("/dev/nvidia-uvm").is_some(), UNKNOWN)
}

/// Checks the requirements of the runtime for loading the driver.
pub fn check_runtime() -> Outcome {
    fails(
        is_watched() && [OPENAT, FSTAT].iter().any(|call| call.refused().is_some()),
        INSUFFICIENT_DRIVER,
    )
}

/// Returns `true` if the device file of a GPU may be opened. CUDA and NVML count only such GPUs.
pub fn may_open(gpu: usize) -> bool {
    !is_watched() || gpu_file(gpu).is_none()
}

/// Checks the requirements of a context on a GPU.
pub fn check_context(gpu: usize) -> Outcome {
    if !is_watched() {
        return Ok(());
    }
    if let Some(refused) = OPENAT
        .refused()
        .or_else(|| file("/dev/nvidiactl"))
        .or_else(|| gpu_file(gpu))
    {
        return Err(if [EPERM, EACCES].contains(&refused) {
            NOT_PERMITTED
        } else {
            OPERATING_SYSTEM
        });
    }
    let every_call = INIT_AND_CONTEXT.iter().chain([&DUP, &IOCTL]);
    fails(
        every_call.filter(|call| call.refused().is_some()).count() > 0,
        OPERATING_SYSTEM,
    )?;
    fails(CLONE3.refused() == Some(EPERM), OPERATING_SYSTEM)
}

/// Checks the requirements of managed memory.
pub fn check_managed_memory() -> Outcome {
    if !is_watched() {
        return Ok(());
    }
    fails(GET_MEMPOLICY.refused() == Some(ENOSYS), NOT_SUPPORTED)?;
    match IOCTL.refused() {
        None => Ok(()),
        Some(EPERM) => Err(NOT_PERMITTED),
        Some(_) => Err(NOT_SUPPORTED),
    }
}

/// NVML's own status codes for its requirements.
pub mod nvml {
    use super::{EACCES, ENOENT, EPERM, FCNTL, IOCTL, OPENAT, STAT, file, gpu_file, is_watched};

    const NO_PERMISSION: u32 = 4;
    const DRIVER_NOT_LOADED: u32 = 9;
    const OPERATING_SYSTEM: u32 = 17;
    const LIB_RM_VERSION_MISMATCH: u32 = 18;
    const UNKNOWN: u32 = 999;

    /// Checks the requirements of `nvmlInit`.
    pub fn check_init() -> Result<(), u32> {
        if !is_watched() {
            return Ok(());
        }
        match file("/dev/nvidiactl") {
            None => {}
            Some(EPERM) => return Err(UNKNOWN),
            Some(EACCES) => return Err(NO_PERMISSION),
            Some(ENOENT) => return Err(DRIVER_NOT_LOADED),
            Some(_) => return Err(OPERATING_SYSTEM),
        }
        if let Some(refused) = OPENAT.refused().or_else(|| FCNTL.refused()) {
            return Err(if refused == EPERM {
                UNKNOWN
            } else {
                OPERATING_SYSTEM
            });
        }
        match (STAT.refused(), IOCTL.refused()) {
            (Some(_), _) => Err(UNKNOWN),
            (None, Some(_)) => Err(LIB_RM_VERSION_MISMATCH),
            (None, None) => Ok(()),
        }
    }

    /// Checks the requirements of the first handle of a GPU.
    pub fn check_handle(gpu: usize) -> Result<(), u32> {
        let needed = || {
            gpu_file(gpu).is_some()
                || [FCNTL, IOCTL, OPENAT, STAT]
                    .iter()
                    .any(|call| call.refused().is_some())
        };
        if is_watched() && needed() {
            Err(UNKNOWN)
        } else {
            Ok(())
        }
    }
}
