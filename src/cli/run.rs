//! `run`: its arguments, and where and how often workers are asked by `run` and `survey` alike.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::catalogue::Shard;
use crate::exit::Exit;
use crate::report::{Required, Requirement};
use crate::run::{self, LOCK_FOLDER, Locking, On};
use crate::scenario::Hazard;
use crate::simulated;

/// What can be given to `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// `essential` (if none is given), `all`, names, folders, globs, tags, symptoms or paths of
    /// files; `!SELECTOR` leaves out what it matches.
    selectors: Vec<String>,
    #[command(flatten)]
    left_out: LeftOut,
    #[command(flatten)]
    asked: Asked,
    /// Write JUnit XML too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Show every case of every scenario and a table, instead of one answer per question.
    #[arg(short, long)]
    verbose: bool,
    /// Allow a hazard: fault, oversubscribe, bigmem, root, settings, code (Python lines of files of
    /// your own).
    #[arg(long, value_name = "HAZARD", value_parser = parse_hazard)]
    allow: Vec<Hazard>,
    /// Accept that scenarios selected by their exact names were skipped, for this reason.
    #[arg(long, value_name = "REASON", value_parser = parse_reason)]
    allow_skip: Option<String>,
    /// Exit 4 with fewer usable GPUs, or fewer conclusive answers: gpus=N, answers=N.
    #[arg(long, value_name = "WHAT=N", value_parser = parse_requirement)]
    require: Vec<Requirement>,
    /// Write this into the report, for whoever reads many: node=gpu-17; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Write this machine's host name into the report, as the label `host`.
    #[arg(long)]
    label_host: bool,
    /// Write a report without steps, attempts and samples: small enough to keep one of every machine.
    #[arg(long)]
    compact: bool,
    /// Run only this part of the selection: every N-th instance, from the I-th.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Stop after the first unexpected verdict.
    #[arg(long)]
    fail_fast: bool,
    /// Print what would run here, what does not apply, and how long it would take; start no worker.
    #[arg(long)]
    dry_run: bool,
}

/// What is left out of a selection.
#[derive(Debug, clap::Args)]
pub(super) struct LeftOut {
    /// Leave out what this selector matches, as `!SELECTOR` does; may be given several times.
    #[arg(long, value_name = "SELECTOR")]
    pub(super) exclude: Vec<String>,
}

/// Where and how often workers are asked, by `run` and `survey` alike.
#[derive(Debug, clap::Args)]
pub(super) struct Asked {
    /// Where: `cuda` (this machine's GPUs), `sim[:MACHINE]` (the simulated machine), or `auto`.
    #[arg(long, default_value = "cuda", value_parser = parse_on)]
    on: On,
    /// Parent folder of the run's folder.
    #[arg(long, default_value = "reports")]
    out: PathBuf,
    /// Attempts of each case; without it as the files set, 3 in a survey, 1 of a generated mask.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// One attempt of each case: quick, without statistics.
    #[arg(long, conflicts_with = "repeat")]
    quick: bool,
    /// One JSON document on stdout (the report; on failure, the error).
    #[arg(long)]
    json: bool,
    /// A libcudart to run on; may be given several times.
    #[arg(long, value_name = "PATH")]
    libcudart: Vec<PathBuf>,
    /// The Python interpreter that runs Python lines; without it $CUDA_PITFALLS_PYTHON, or the first
    /// python3 on PATH.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// UUIDs of the GPUs that may be used, separated by commas.
    #[arg(long, value_name = "UUIDS", value_delimiter = ',')]
    gpus: Option<Vec<String>>,
    #[command(flatten)]
    locks: Locks,
    /// The seed of the order of attempts, below 2^53.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: Option<u64>,
}

/// How other runs on the same GPUs are waited for.
#[derive(Debug, clap::Args)]
struct Locks {
    /// The folder of the lock files, one for each GPU; the same for all users of the GPUs.
    #[arg(long, value_name = "DIR", default_value = LOCK_FOLDER)]
    lock_dir: PathBuf,
    /// Take no lock: another run on these GPUs at the same time disturbs this one.
    #[arg(long, conflicts_with_all = ["lock_dir", "wait"])]
    no_lock: bool,
    /// How long to wait for another run, such as 90s, 10m or 0s.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    wait: Duration,
}

impl Locks {
    fn locking(self) -> Locking {
        if self.no_lock { Locking::none() } else { Locking::new(self.lock_dir, self.wait) }
    }
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => 0,
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).filter(|_| factor > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| "a number with s, m, h or d, such as 90s".to_string())
}

impl Asked {
    pub(super) fn options(self, selectors: Vec<String>) -> run::RunOptions {
        run::RunOptions {
            selectors,
            exclude: Vec::new(),
            labels: BTreeMap::new(),
            compact: false,
            on: self.on,
            out: self.out,
            repeat: self.repeat,
            quick: self.quick,
            json: self.json,
            verbose: false,
            junit: None,
            libcudart: self.libcudart,
            python: self.python,
            gpus: self.gpus,
            allow: Vec::new(),
            allow_skip: None,
            require: Vec::new(),
            shard: None,
            fail_fast: false,
            dry_run: false,
            seed: self.seed,
            locking: self.locks.locking(),
        }
    }
}

pub(super) fn parse_on(text: &str) -> Result<On, String> {
    match text {
        "cuda" => Ok(On::Cuda),
        "auto" => Ok(On::Auto),
        "sim" => Ok(On::Sim(None)),
        _ => match text.strip_prefix("sim:") {
            Some(machine) if !machine.is_empty() => Ok(On::Sim(Some(machine.to_string()))),
            _ => {
                Err(format!("one of cuda, auto, sim, sim:MACHINE; machines: {}", simulated::machine_names().join(", ")))
            }
        },
    }
}

fn parse_hazard(text: &str) -> Result<Hazard, String> {
    let all = Hazard::ALL.map(Hazard::name);
    Hazard::ALL.into_iter().find(|hazard| hazard.name() == text).ok_or_else(|| format!("one of {}", all.join(", ")))
}

/// A reason that says nothing would excuse anything.
pub(super) fn parse_reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("a reason in words".to_string()) } else { Ok(text.to_string()) }
}

fn parse_requirement(text: &str) -> Result<Requirement, String> {
    let read = |(what, wanted): (&str, &str)| {
        let what = Required::ALL.into_iter().find(|known| known.name() == what)?;
        let is_number = wanted.bytes().all(|byte| byte.is_ascii_digit());
        let wanted = wanted.parse().ok().filter(|wanted| is_number && *wanted > 0)?;
        Some(Requirement::new(what, wanted))
    };
    let accepted = Required::ALL.map(|what| format!("{}=N", what.name())).join(" or ");
    text.split_once('=').and_then(read).ok_or_else(|| format!("{accepted}, with N at least 1"))
}

/// The longest name and the longest value of a label, in bytes.
const LABEL_BYTES: (usize, usize) = (63, 255);

fn parse_label(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
            && name.len() <= LABEL_BYTES.0
    };
    let is_value =
        |value: &str| !value.is_empty() && value.len() <= LABEL_BYTES.1 && !value.chars().any(char::is_control);
    let read = text.split_once('=').filter(|(name, value)| is_name(name) && is_value(value));
    read.map(|(name, value)| (name.to_string(), value.to_string())).ok_or_else(|| {
        let (name, value) = LABEL_BYTES;
        format!(
            "a name of letters, digits, `_`, `.` and `-` (at most {name}), `=`, and a value (at most {value} bytes), \
             such as node=gpu-17"
        )
    })
}

/// The labels by name.
///
/// # Errors
/// A name that was given twice, or a machine that would not say its name.
fn labels(given: Vec<(String, String)>, with_host: bool) -> Result<BTreeMap<String, String>, String> {
    let host = || {
        let name = fs::read_to_string(HOST_NAME).map_err(|error| format!("--label-host: {HOST_NAME}: {error}"))?;
        parse_label(&format!("{HOST}={}", name.trim())).map_err(|_| "--label-host: the host has no name".to_string())
    };
    let host = if with_host { Some(host()?) } else { None };
    let mut labels = BTreeMap::new();
    for (name, value) in given.into_iter().chain(host) {
        let twice = format!("--label: `{name}` is given twice");
        if labels.insert(name, value).is_some() {
            return Err(twice);
        }
    }
    Ok(labels)
}

/// Runs what the arguments say.
pub(super) fn run(arguments: Arguments) -> Exit {
    let Arguments {
        selectors,
        left_out,
        asked,
        junit,
        verbose,
        allow,
        allow_skip,
        require,
        label,
        label_host,
        compact,
        shard,
        fail_fast,
        dry_run,
    } = arguments;
    let labels = match labels(label, label_host) {
        Ok(labels) => labels,
        Err(why) => return super::fail(&why, Exit::Usage, asked.json),
    };
    let options = run::RunOptions {
        labels,
        compact,
        exclude: left_out.exclude,
        junit,
        verbose,
        allow,
        allow_skip,
        require,
        shard,
        fail_fast,
        dry_run,
        ..asked.options(selectors)
    };
    super::with_workers(options.json, |program, interrupt| run::run(&options, program, interrupt))
}

/// The label of `--label-host`, and where the kernel says it.
const HOST: &str = "host";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_strictly_and_each_once() {
        let label = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(parse_label("node=gpu-17=b").unwrap(), label("node", "gpu-17=b"));
        for bad in ["node", "node=", "=x", "1node=x", "no de=x", "node=a\nb", &format!("{}=x", "n".repeat(64))] {
            assert!(parse_label(bad).unwrap_err().contains("such as node=gpu-17"), "{bad}");
        }
        let twice = labels(vec![label("node", "a"), label("node", "b")], false);
        assert_eq!(twice.unwrap_err(), "--label: `node` is given twice");
        let both = labels(vec![label("rack", "3")], true).unwrap();
        assert!(both.len() == 2 && !both[HOST].is_empty() && both["rack"] == "3", "{both:?}");
    }

    #[test]
    fn requirements_are_read_strictly() {
        assert_eq!(parse_requirement("gpus=2").unwrap(), Requirement::new(Required::Gpus, 2));
        assert_eq!(parse_requirement("answers=150").unwrap(), Requirement::new(Required::Answers, 150));
        for bad in
            ["gpus", "gpus=", "gpus=0", "gpus=-1", "gpus=+1", "gpus=2.5", "GPUs=2", "gpu=2", "=2", "gpus=2,answers=1"]
        {
            assert_eq!(parse_requirement(bad).unwrap_err(), "gpus=N or answers=N, with N at least 1", "{bad}");
        }
    }
}
