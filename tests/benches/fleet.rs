//! How fast `fleet merge` is, and how much memory it takes: reports of made-up machines, each a file.
//!
//! `cargo bench --bench fleet -- [COUNT…]` makes them of `reports/shared-gpus/all-idle.json.gz`, compact, with other
//! names, UUIDs and bytes, in a folder of its own (190 KB each), and merges them with the program. It prints the
//! wall time and the largest resident set of each merge, as JSON. What is measured is this machine.

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use cuda_pitfalls::report::{CompactReport, Report};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cuda-pitfalls");
/// Every so many machines' contexts cost more.
const EVERY: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let mut counts: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![1000];
    }
    let mut text = Vec::new();
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/shared-gpus/all-idle.json.gz");
    flate2::read::GzDecoder::new(fs::File::open(base)?).read_to_end(&mut text)?;
    let whole: Report = serde_json::from_slice(&text)?;
    let mut base = CompactReport::new(&whole, |_| true);
    // With a variant for the machine's name, and one for each of its UUIDs.
    base.run.labels.insert("node".to_owned(), "NODE-NAME".to_owned());
    let mut text = serde_json::to_string(&base)?;
    for (place, gpu) in whole.machine.gpus.iter().enumerate() {
        text = text.replace(&gpu.uuid, &format!("GPU-{place}-NODE-NAME"));
    }
    let bytes = whole.run.calibration.first().map_or(0, |found| found.figures.context_bytes).to_string();
    let folder = tempfile::tempdir()?;
    let mut made = 0;
    for count in counts {
        for node in made..count.max(made) {
            let name = format!("node-{node:06}");
            let mut own = text.replace("NODE-NAME", &name);
            if node % EVERY == 0 {
                let more = bytes.parse::<u64>()? + (64 << 20);
                own = own.replace(&format!(":{bytes}"), &format!(":{more}"));
            }
            fs::write(folder.path().join(format!("{name}.json")), own)?;
        }
        made = made.max(count);
        println!("{}", merge(folder.path(), made, text.len())?);
    }
    Ok(())
}

fn merge(folder: &Path, machines: usize, bytes: usize) -> Result<Value, Box<dyn Error>> {
    let out = tempfile::tempdir()?;
    let out = out.path().join("fleet.json");
    let before = of_children();
    let begun = Instant::now();
    let status = Command::new(PROGRAM)
        .args(["fleet", "merge"])
        .arg(folder)
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let seconds = begun.elapsed().as_secs_f64();
    let fleet: Value = serde_json::from_slice(&fs::read(&out)?)?;
    let usage = of_children();
    let spent = |usage: &libc::rusage| {
        let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        of(usage.ru_utime) + of(usage.ru_stime)
    };
    let cpu_seconds = spent(&usage) - spent(&before);
    Ok(json!({
        "machines": machines,
        "merged": fleet["input"]["buckets"]["merged"],
        "report_bytes": bytes,
        "seconds": (seconds * 100.0).round() / 100.0,
        // On all cores together: what other processes take of them does not count.
        "cpu_seconds": (cpu_seconds * 100.0).round() / 100.0,
        "cores": std::thread::available_parallelism()?.get(),
        // Of the largest merge so far.
        "peak_rss_mib": usage.ru_maxrss >> 10,
        "differences": fleet["differences"].as_array().map(Vec::len),
        "exit": status.code(),
    }))
}

/// What ended children used.
fn of_children() -> libc::rusage {
    // SAFETY: an all-zero `rusage` is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of this type; the call keeps nothing of it.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    usage
}
