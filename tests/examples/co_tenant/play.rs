//! The actions of a co-tenant.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Init = unsafe extern "C" fn(u32) -> i32;
type Count = unsafe extern "C" fn(*mut i32) -> i32;
type Retain = unsafe extern "C" fn(*mut usize, i32) -> i32;
type SetCurrent = unsafe extern "C" fn(usize) -> i32;
type Alloc = unsafe extern "C" fn(*mut u64, usize) -> i32;
type Free = unsafe extern "C" fn(u64) -> i32;

const MIB: usize = 1 << 20;

/// libcuda, opened as any program opens it.
struct Driver {
    library: libloading::Library,
}

impl Driver {
    fn open(path: &str) -> Result<Driver, String> {
        // SAFETY: opening libcuda runs its constructors, as in any program that links it.
        let library =
            unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
        Ok(Driver { library })
    }

    fn symbol<T>(&self, name: &str) -> Result<libloading::Symbol<'_, T>, String> {
        // SAFETY: the types above match cuda.h.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|error| error.to_string())
    }

    fn init(&self) -> Result<i32, String> {
        let mut count = 0;
        // SAFETY: both take what cuda.h says.
        checked("cuInit", unsafe { self.symbol::<Init>("cuInit")?(0) })?;
        // SAFETY: as above.
        checked("cuDeviceGetCount", unsafe {
            self.symbol::<Count>("cuDeviceGetCount")?(&raw mut count)
        })?;
        Ok(count)
    }

    fn contexts(&self, count: i32) -> Result<Vec<usize>, String> {
        let retain = self.symbol::<Retain>("cuDevicePrimaryCtxRetain")?;
        (0..count)
            .map(|device| {
                let mut context = 0;
                // SAFETY: the pointer is good and the ordinal is below the count.
                checked("cuDevicePrimaryCtxRetain", unsafe {
                    retain(&raw mut context, device)
                })?;
                Ok(context)
            })
            .collect()
    }
}

fn checked(call: &str, status: i32) -> Result<(), String> {
    if status == 0 {
        Ok(())
    } else {
        Err(format!("{call} returned {status}"))
    }
}

/// Plays a part until the end. `again` is a program that plays the part given as its first argument.
pub(crate) fn play(
    mode: &str,
    end: Instant,
    library: &str,
    again: &dyn Fn(&str) -> Command,
) -> Result<(), String> {
    match mode {
        "hold-init" => {
            Driver::open(library)?.init()?;
            ready();
            stay(end);
        }
        "hold-context" => {
            let driver = Driver::open(library)?;
            driver.contexts(driver.init()?)?;
            ready();
            stay(end);
        }
        "once-init" => drop(Driver::open(library)?.init()?),
        "once-context" => {
            let driver = Driver::open(library)?;
            driver.contexts(driver.init()?)?;
        }
        "churn-init" => churn(again("once-init"), end, Duration::from_millis(200))?,
        "churn-context" => churn(again("once-context"), end, Duration::from_millis(300))?,
        "churn-memory" => churn_memory(end, library)?,
        other => {
            return Err(format!(
                "unknown mode `{other}`; see the comment at the top of tests/examples/co_tenant/main.rs"
            ));
        }
    }
    Ok(())
}

fn ready() {
    println!("ready");
    let _ = std::io::stdout().flush();
}

fn stay(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

/// Starts a fresh process again and again: the memory of `cuInit` comes and goes with it.
fn churn(mut program: Command, end: Instant, rest: Duration) -> Result<(), String> {
    ready();
    while Instant::now() < end {
        let status = program
            .stdout(Stdio::null())
            .status()
            .map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{program:?} failed"));
        }
        std::thread::sleep(rest);
    }
    Ok(())
}

fn churn_memory(end: Instant, library: &str) -> Result<(), String> {
    let driver = Driver::open(library)?;
    let contexts = driver.contexts(driver.init()?)?;
    let (set, alloc, free) = (
        driver.symbol::<SetCurrent>("cuCtxSetCurrent")?,
        driver.symbol::<Alloc>("cuMemAlloc_v2")?,
        driver.symbol::<Free>("cuMemFree_v2")?,
    );
    ready();
    let mut random = u64::from(std::process::id()) | 1;
    while Instant::now() < end {
        for context in &contexts {
            // A linear congruential generator: sizes need to vary, and nothing else.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let bytes = (4 + (random >> 33) as usize % 521) * MIB;
            let mut pointer = 0;
            // SAFETY: the context is one of ours.
            checked("cuCtxSetCurrent", unsafe { set(*context) })?;
            // SAFETY: the pointer is good.
            checked("cuMemAlloc_v2", unsafe { alloc(&raw mut pointer, bytes) })?;
            std::thread::sleep(Duration::from_millis(150));
            // SAFETY: as above; the memory is what was just allocated.
            checked("cuMemFree_v2", unsafe { free(pointer) })?;
        }
        std::thread::sleep(Duration::from_millis(150));
    }
    Ok(())
}
