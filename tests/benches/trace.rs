//! What a trace costs: programs traced and not, in pairs, the order turned round every time.
//!
//! `cargo bench --bench trace` builds a program that launches a kernel a million times with `cc`, and runs
//! it on this machine's GPU, or on the simulated machine, which says nothing about a real one. To measure
//! on a machine without cargo, carry this program, `cuda-pitfalls` and the program that launches there and
//! run `trace PROGRAM LAUNCHES [--pairs N] [-- COMMAND…]`. A command that prints `seconds N` is measured
//! by that figure, any other by its wall time. Numbers are ratios within one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

/// Pairs of each program, unless `--pairs N` says otherwise.
const PAIRS: usize = 12;
/// Starts of a program that does nothing.
const STARTS: usize = 20;
const LAUNCHES: &str = "1000000";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let (own, command) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (&words[..], &[][..]),
    };
    let pairs = own.iter().position(|word| word == "--pairs").and_then(|at| own.get(at + 1));
    let pairs = pairs.and_then(|text| text.parse().ok()).unwrap_or(PAIRS);
    let mut files = own.iter().filter_map(|path| Path::new(path).canonicalize().ok()).filter(|path| path.is_file());
    let folder = tempfile::tempdir()?;
    let program = files.next().unwrap_or_else(|| env!("CARGO_BIN_EXE_cuda-pitfalls").into());
    let launches = match files.next() {
        Some(launches) => launches,
        None => build(folder.path())?,
    };
    let bench = Bench { program, out: folder.path().to_path_buf() };
    let mut document = BTreeMap::from([("on".to_string(), json!(bench.on()))]);
    document.insert("more for a program that does nothing, ms".to_string(), bench.starts());
    let launches = [launches.to_string_lossy().into_owned(), LAUNCHES.to_string()];
    // Within one process the machine's own noise cancels; without a trace both ways are one function.
    let both_ways = |traced| spread((0..pairs).map(|_| bench.figure(&launches, traced, "of_the_real_one ")).collect());
    let both_ways = json!({ "traced": both_ways(true), "not traced": both_ways(false) });
    document.insert("a launch through the trace, of one past it, in one process".to_string(), both_ways);
    document.insert("a million launches, ns of one".to_string(), bench.pairs(&launches, pairs, "ns_per_launch "));
    if !command.is_empty() {
        document.insert(command.join(" "), bench.pairs(command, pairs, "seconds "));
    }
    println!("{}", serde_json::to_string_pretty(&document)?);
    Ok(())
}

/// The program that launches.
fn build(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced/launch_loop.c");
    let out = folder.join("launch_loop");
    let status = Command::new("cc").args(["-O2", "-o"]).arg(&out).arg(source).arg("-ldl").status()?;
    if status.success() { Ok(out) } else { Err("cc failed".into()) }
}

struct Bench {
    program: PathBuf,
    out: PathBuf,
}

impl Bench {
    /// Where programs run: bare ones too, so that both meet the same driver.
    fn on(&self) -> &'static str {
        let has_gpu = Path::new("/dev/nvidia0").exists();
        if has_gpu { "cuda" } else { "sim" }
    }

    /// A command as it is, or traced.
    fn command(&self, command: &[String], traced: bool) -> Command {
        let mut started = Command::new(&self.program);
        started.args(["trace", "--on", self.on(), "--out"]).arg(self.out.join("traces")).arg("--").args(command);
        if traced {
            return started;
        }
        let mut bare = Command::new(&command[0]);
        bare.args(&command[1..]);
        if self.on() == "sim" {
            let links = cuda_pitfalls::simulated::lay_out("h200-x1", &self.out.join("machine"));
            bare.env("LD_LIBRARY_PATH", links.expect("the simulated machine is laid out"));
        }
        bare
    }

    /// The figure that a program prints behind a word, or its wall time in seconds.
    fn figure(&self, command: &[String], traced: bool, word: &str) -> f64 {
        let mut command = self.command(command, traced);
        let began = Instant::now();
        let output = command.stderr(Stdio::null()).stdin(Stdio::null()).output().expect("the program starts");
        let wall = began.elapsed().as_secs_f64();
        assert!(output.status.success(), "{command:?} failed: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let printed = text.split(word).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        printed.unwrap_or(wall)
    }

    fn pairs(&self, command: &[String], count: usize, word: &str) -> Value {
        let (mut ratios, mut figures) = (Vec::new(), [Vec::new(), Vec::new()]);
        for turn in 0..count {
            let is_traced_first = turn % 2 == 1;
            let one = self.figure(command, is_traced_first, word);
            let other = self.figure(command, !is_traced_first, word);
            let (bare, traced) = if is_traced_first { (other, one) } else { (one, other) };
            ratios.push(traced / bare);
            let [all_bare, all_traced] = &mut figures;
            all_bare.push(bare);
            all_traced.push(traced);
        }
        let [bare, traced] = figures;
        json!({ "ratio": spread(ratios), "bare": spread(bare), "traced": spread(traced) })
    }

    /// How much longer it takes until a program begins, and until it is over, in milliseconds.
    fn starts(&self) -> Value {
        let now = ["/bin/date".to_string(), "+seconds %s.%N".to_string()];
        let since_epoch = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("the clock is past 1970").as_secs_f64()
        };
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let [bare, traced] = [false, true].map(|traced| {
                let began = since_epoch();
                let at = self.figure(&now, traced, "seconds ") - began;
                (at, since_epoch() - began)
            });
            begins.push(1000.0 * (traced.0 - bare.0));
            ends.push(1000.0 * (traced.1 - bare.1));
        }
        json!({ "until it begins": spread(begins), "until it is over": spread(ends) })
    }
}

fn spread(mut all: Vec<f64>) -> Value {
    all.sort_by(f64::total_cmp);
    let rounded = |value: Option<&f64>| value.map(|value| (value * 1e6).round() / 1e6);
    json!({
        "median": rounded(all.get(all.len() / 2)), "min": rounded(all.first()), "max": rounded(all.last()),
        "count": all.len(),
    })
}
