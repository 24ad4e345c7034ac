//! Starts libcuda the way a program does that opens it by its name. It calls `cuInit` and, on request, creates a
//! context, allocates memory and does work on each visible GPU. Calls have the same labels as in `survey needs`, so
//! that its table applies to them.

use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::examination::ExaminerMessage;
use libloading::Library;

use crate::mapped::mapped_libraries;
use crate::speaker::Speaker;
use crate::worker::{call_raw, find_symbol, uuid_text};

/// The name that programs use to open it.
const LIBCUDA: &str = "libcuda.so.1";
/// Size of the allocation, in bytes.
const MIB: u64 = 1 << 20;
const GLOBAL: u64 = 1;
/// Maximum number of GPUs that are tried.
const MOST_GPUS: u64 = 64;

pub(super) fn start(speaker: &Speaker, uses_gpus: bool) {
    // SAFETY: opening libcuda runs its constructors, as in any program that links it.
    let library = match unsafe { Library::new(LIBCUDA) } {
        Ok(library) => library,
        Err(error) => {
            return speaker.send_message(&ExaminerMessage::Missing {
                message: why(&error),
            });
        }
    };
    // After a call that hangs or crashes, nothing can be reported.
    speaker.send_message(&ExaminerMessage::Open {
        libraries: mapped_libraries().known,
    });
    let driver = Driver {
        library: &library,
        speaker,
    };
    if driver.call("cuInit", "cuInit", &[0]) {
        let mut count = 0i32;
        if driver.call(
            "cuDeviceGetCount",
            "cuDeviceGetCount",
            &[(&raw mut count).addr() as u64],
        ) {
            let count = u64::try_from(count).unwrap_or(0).min(MOST_GPUS);
            let named = (0..count).filter(|gpu| driver.name(*gpu)).count() as u64;
            if uses_gpus && named == count {
                (0..count).for_each(|gpu| driver.use_gpu(gpu));
            }
        }
    }
    // The process ends soon, and then only code of the library runs.
    std::mem::forget(library);
}

/// Returns the loader's own message, if it has one.
fn why(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

struct Driver<'a> {
    library: &'a Library,
    speaker: &'a Speaker<'a>,
}

impl Driver<'_> {
    fn call(&self, name: &str, label: &str, arguments: &[u64]) -> bool {
        let Some(address) = find_symbol(self.library, name) else {
            self.speaker.send_message(&ExaminerMessage::Missing {
                message: format!("{LIBCUDA} has no {name}"),
            });
            return false;
        };
        self.speaker.call(CallLibrary::Driver, label, || {
            // SAFETY: the address belongs to this function, and the callers below pass its C parameters.
            i64::from(unsafe { call_raw(address, arguments) } as u32)
        })
    }

    fn name(&self, gpu: u64) -> bool {
        let mut uuid = [0u8; 16];
        let is_named = self.call(
            "cuDeviceGetUuid_v2",
            &format!("cuDeviceGetUuid_v2 {gpu}"),
            &[(&raw mut uuid).addr() as u64, gpu],
        );
        if is_named {
            self.speaker.send_message(&ExaminerMessage::Seen {
                uuid: uuid_text(&uuid),
            });
        }
        is_named
    }

    fn use_gpu(&self, gpu: u64) {
        let (mut context, mut memory, mut managed) = (0u64, 0u64, 0u64);
        if !self.call_on(
            gpu,
            "cuDevicePrimaryCtxRetain",
            &[address(&mut context), gpu],
        ) {
            return;
        }
        let _ = self.call_on(gpu, "cuCtxSetCurrent", &[context])
            && self.call_on(gpu, "cuMemAlloc_v2", &[address(&mut memory), MIB])
            && self.call_on(gpu, "cuMemsetD8_v2", &[memory, 0, MIB])
            && self.call_on(gpu, "cuCtxSynchronize", &[])
            && self.call_on(
                gpu,
                "cuMemAllocManaged",
                &[address(&mut managed), MIB, GLOBAL],
            );
        self.call_on(gpu, "cuDevicePrimaryCtxRelease_v2", &[gpu]);
    }

    fn call_on(&self, gpu: u64, name: &str, arguments: &[u64]) -> bool {
        // The first GPU has no number, as in the table.
        let label = if gpu == 0 {
            name.to_string()
        } else {
            format!("{name} of GPU {gpu}")
        };
        self.call(name, &label, arguments)
    }
}

fn address(result: &mut u64) -> u64 {
    (&raw mut *result).addr() as u64
}
