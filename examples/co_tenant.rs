//! A process that is on the GPUs and is not ours: what a workstation's desktop, another job or
//! another run is to `cuda-pitfalls run`. Tests and measurements start it beside a run.
//!
//! ```text
//! co_tenant MODE [SECONDS] [LIBCUDA]
//!   hold-init      cuInit, then stay
//!   hold-context   a context on every visible GPU, then stay
//!   churn-init     a process that only calls cuInit and exits, every 0.2 s
//!   churn-memory   a context on every visible GPU; 4 to 524 MiB come and go every 0.3 s
//!   churn-context  a process that makes a context on every visible GPU and exits, every 0.3 s
//! ```
//!
//! It prints `ready` once it is there, and stays for so many seconds (3600 if not said) or until it
//! is killed. `CUDA_VISIBLE_DEVICES` says on which GPUs.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
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
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
        Ok(Driver { library })
    }

    fn symbol<T>(&self, name: &str) -> Result<libloading::Symbol<'_, T>, String> {
        // SAFETY: the types above are those of cuda.h.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|error| error.to_string())
    }

    fn init(&self) -> Result<i32, String> {
        let mut count = 0;
        // SAFETY: both take what cuda.h says.
        checked("cuInit", unsafe { self.symbol::<Init>("cuInit")?(0) })?;
        // SAFETY: as above.
        checked("cuDeviceGetCount", unsafe { self.symbol::<Count>("cuDeviceGetCount")?(&raw mut count) })?;
        Ok(count)
    }

    fn contexts(&self, count: i32) -> Result<Vec<usize>, String> {
        let retain = self.symbol::<Retain>("cuDevicePrimaryCtxRetain")?;
        (0..count)
            .map(|device| {
                let mut context = 0;
                // SAFETY: the pointer is good and the ordinal is below the count.
                checked("cuDevicePrimaryCtxRetain", unsafe { retain(&raw mut context, device) })?;
                Ok(context)
            })
            .collect()
    }
}

fn checked(call: &str, status: i32) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{call} returned {status}")) }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = arguments.first().map_or("", String::as_str);
    let seconds = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(3600.0);
    let library = arguments.get(2).map_or("libcuda.so.1", String::as_str);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    match play(mode, end, library) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("co_tenant: {why}");
            ExitCode::FAILURE
        }
    }
}

fn play(mode: &str, end: Instant, library: &str) -> Result<(), String> {
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
        "churn-init" => churn("once-init", end, library, Duration::from_millis(200))?,
        "churn-context" => churn("once-context", end, library, Duration::from_millis(300))?,
        "churn-memory" => churn_memory(end, library)?,
        other => return Err(format!("unknown mode `{other}`; see the comment at the top of examples/co_tenant.rs")),
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

/// A fresh process again and again: what `cuInit` takes comes and goes with it.
fn churn(mode: &str, end: Instant, library: &str, rest: Duration) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    ready();
    while Instant::now() < end {
        let status = Command::new(&program).args([mode, "0", library]).stdout(Stdio::null()).status();
        if !status.map_err(|error| error.to_string())?.success() {
            return Err(format!("`{mode}` failed"));
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
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
