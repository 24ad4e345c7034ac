//! `run`: its arguments, and where and how often workers are asked by `run` and `survey` alike.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::argument;
use super::error::CliError;
use crate::run::{self, Locking};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue::Shard;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::Requirement;
use cuda_pitfalls_core::scenario::Hazard;
use cuda_pitfalls_instrument::libraries::On;

/// The groups of options in the help.
pub(super) const ASKED: &str = "What is asked";
pub(super) const WHERE: &str = "Where it is asked";
pub(super) const HOW_OFTEN: &str = "How often, and how long";
pub(super) const WRITTEN: &str = "What is printed and written";
pub(super) const JUDGED: &str = "What counts as a failure";

/// What can be given to `run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// `essential` (if none is given), `all`, names, folders, globs, tags, symptoms or paths of
    /// files; `!SELECTOR` leaves out what it matches.
    selectors: Vec<String>,
    #[command(flatten)]
    left_out: ExclusionArguments,
    #[command(flatten)]
    asked: WorkerArguments,
    /// Write JUnit XML too.
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    junit: Option<PathBuf>,
    /// Show every case of every scenario and a table, instead of one answer per question.
    #[arg(short, long, conflicts_with = "quiet", help_heading = WRITTEN)]
    verbose: bool,
    /// Allow a hazard: fault, oversubscribe, bigmem, root, settings, code (Python lines of files of
    /// your own).
    #[arg(long, value_name = "HAZARD", value_parser = argument::hazard, help_heading = ASKED)]
    allow: Vec<Hazard>,
    /// Accept that scenarios selected by their exact names were skipped, for this reason.
    #[arg(long, value_name = "REASON", value_parser = argument::reason, help_heading = JUDGED, hide_short_help = true)]
    allow_skip: Option<String>,
    /// Exit 4 with fewer usable GPUs, or fewer conclusive answers: gpus=N, answers=N.
    #[arg(long, value_name = "WHAT=N", value_parser = argument::requirement, help_heading = JUDGED)]
    require: Vec<Requirement>,
    /// Write this into the report, for whoever reads many: node=gpu-17; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = argument::label, help_heading = WRITTEN, hide_short_help = true)]
    label: Vec<(String, String)>,
    /// Write this machine's host name into the report, as the label `host`.
    #[arg(long, help_heading = WRITTEN, hide_short_help = true)]
    label_host: bool,
    /// Write a report without steps, attempts and samples: small enough to keep one of every machine.
    #[arg(long, help_heading = WRITTEN, hide_short_help = true)]
    compact: bool,
    /// Run only this part of the selection: every N-th instance, from the I-th.
    #[arg(long, value_name = "I/N", value_parser = argument::shard, help_heading = ASKED, hide_short_help = true)]
    shard: Option<Shard>,
    /// Stop after the first unexpected verdict.
    #[arg(long, help_heading = HOW_OFTEN)]
    fail_fast: bool,
    /// Print what would run here, what does not apply, and how long it would take; start no worker.
    #[arg(long, help_heading = HOW_OFTEN)]
    dry_run: bool,
}

/// What is left out of a selection.
#[derive(Debug, clap::Args)]
pub(super) struct ExclusionArguments {
    /// Leave out what this selector matches, as `!SELECTOR` does; may be given several times.
    #[arg(long, value_name = "SELECTOR", help_heading = ASKED, hide_short_help = true)]
    pub(super) exclude: Vec<String>,
}

/// Where and how often workers are asked, by `run` and `survey` alike.
#[derive(Debug, clap::Args)]
pub(super) struct WorkerArguments {
    /// Where: `cuda` (this machine's GPUs), `sim[:MACHINE]` (the simulated machine), or `auto`.
    #[arg(long, default_value = defaults::ON, value_parser = argument::on, help_heading = WHERE)]
    on: On,
    /// Parent folder of the run's folder; without it `reports`, if a GPU can be asked or a machine to simulate was named.
    #[arg(long, value_name = "FOLDER", help_heading = WRITTEN)]
    out: Option<PathBuf>,
    #[arg(help = repeat_help(), long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = HOW_OFTEN)]
    repeat: Option<u32>,
    /// One attempt of each case: quick, without statistics.
    #[arg(long, conflicts_with = "repeat", help_heading = HOW_OFTEN)]
    quick: bool,
    /// One JSON document on stdout (the report; on failure, the error).
    #[arg(long, help_heading = WRITTEN)]
    pub(super) json: bool,
    /// Print failures and the counts at the end only, and no progress.
    #[arg(short, long, help_heading = WRITTEN)]
    quiet: bool,
    /// A libcudart to run on; may be given several times.
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    libcudart: Vec<PathBuf>,
    /// The libcuda to run on, such as one of a compatibility package; without it, the loader's.
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    libcuda: Option<PathBuf>,
    /// The Python interpreter that runs Python lines; without it $CUDA_PITFALLS_PYTHON, or the first
    /// python3 on PATH.
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    python: Option<PathBuf>,
    /// UUIDs of the GPUs that may be used, separated by commas.
    #[arg(long, value_name = "UUIDS", value_delimiter = ',', help_heading = WHERE, hide_short_help = true)]
    gpus: Option<Vec<String>>,
    #[command(flatten)]
    locks: LockArguments,
    /// The seed of the order of attempts, below 2^53.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..1 << 53), help_heading = HOW_OFTEN, hide_short_help = true)]
    seed: Option<u64>,
}

/// How other runs on the same GPUs are waited for.
#[derive(Debug, clap::Args)]
pub(super) struct LockArguments {
    /// The folder of the lock files, one for each GPU; the same for all users of the GPUs.
    #[arg(long, value_name = "DIR", default_value = defaults::LOCK_FOLDER, help_heading = WHERE, hide_short_help = true)]
    lock_dir: PathBuf,
    /// Take no lock: another run on these GPUs at the same time disturbs this one.
    #[arg(long, conflicts_with_all = ["lock_dir", "wait"], help_heading = WHERE, hide_short_help = true)]
    no_lock: bool,
    /// How long to wait for another run, such as 90s, 10m or 0s.
    #[arg(long, value_name = "DURATION", default_value = defaults::WAIT, value_parser = argument::duration, help_heading = WHERE, hide_short_help = true)]
    wait: Duration,
}

impl LockArguments {
    pub(super) fn locking(self) -> Locking {
        if self.no_lock { Locking::none() } else { Locking::new(self.lock_dir, self.wait) }
    }
}

impl WorkerArguments {
    pub(super) fn options(self, selectors: Vec<String>) -> run::RunOptions {
        run::RunOptions {
            selectors,
            out: self.out,
            repeat: self.repeat,
            quick: self.quick,
            json: self.json,
            quiet: self.quiet,
            libcudart: self.libcudart,
            libcuda: self.libcuda,
            python: self.python,
            gpus: self.gpus,
            seed: self.seed,
            locking: self.locks.locking(),
            ..run::RunOptions::plain(self.on)
        }
    }
}

fn repeat_help() -> String {
    format!(
        "Attempts of each case; without it as the files set, {} in a survey, {} of a generated mask",
        defaults::SURVEY_REPEAT,
        defaults::GENERATED_REPEAT
    )
}

/// The labels by name.
///
/// # Errors
/// A name that was given twice, or a machine that would not say its name.
fn labels(given: Vec<(String, String)>, with_host: bool) -> Result<BTreeMap<String, String>, CliError> {
    let host = || {
        let name = fs::read_to_string(HOST_NAME).map_err(CliError::HostName)?;
        argument::label(&format!("{HOST}={}", name.trim())).map_err(|_| CliError::NoHostName)
    };
    let host = if with_host { Some(host()?) } else { None };
    let mut labels = BTreeMap::new();
    for (name, value) in given.into_iter().chain(host) {
        if labels.contains_key(&name) {
            return Err(CliError::LabelTwice(name));
        }
        labels.insert(name, value);
    }
    Ok(labels)
}

/// Runs what the arguments say.
pub(super) fn run(arguments: RunArguments) -> Exit {
    let RunArguments {
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
        Err(why) => return super::fail(why, Exit::Usage, asked.json),
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
pub(super) const HOST_NAME: &str = "/proc/sys/kernel/hostname";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_given_once() {
        let label = |name: &str, value: &str| (name.to_string(), value.to_string());
        let twice = labels(vec![label("node", "a"), label("node", "b")], false);
        assert_eq!(twice.unwrap_err().to_string(), "--label: `node` is given twice");
        let both = labels(vec![label("rack", "3")], true).unwrap();
        assert!(both.len() == 2 && !both[HOST].is_empty() && both["rack"] == "3", "{both:?}");
    }
}
