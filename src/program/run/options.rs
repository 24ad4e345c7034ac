//! The options of runs, as the command line has them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::error::RunError;
use crate::argument;
use cuda_pitfalls_core::catalogue::{Selection, Shard, Unselected};
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::Requirement;
use cuda_pitfalls_core::scenario::Hazard;
use cuda_pitfalls_instrument::libraries::On;

/// Headings of the option groups in the help.
pub(crate) const ASKED: &str = "Selection";
pub(crate) const WHERE: &str = "Target";
pub(crate) const HOW_OFTEN: &str = "Attempts and timeouts";
pub(crate) const WRITTEN: &str = "Output";
pub(crate) const JUDGED: &str = "Pass or fail";

/// Time limit of a run of the default set, unless the command line sets the number of attempts.
const BUDGET: Duration = Duration::from_secs(60);

/// Options of `run`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RunOptions {
    /// `essential` (default), `all`, or a name, prefix, directory, glob, tag, symptom or file.
    /// `!SELECTOR` excludes.
    pub(crate) selectors: Vec<String>,
    #[command(flatten)]
    pub(crate) left_out: ExclusionOptions,
    #[command(flatten)]
    pub(crate) asked: WorkerOptions,
    /// Also write JUnit XML.
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub(crate) junit: Option<PathBuf>,
    /// Show every case, not one answer per question.
    #[arg(short, long, conflicts_with = "quiet", help_heading = WRITTEN)]
    pub(crate) verbose: bool,
    /// Allow a hazard: fault, oversubscribe, bigmem, root, settings or code (Python lines in your
    /// own files).
    #[arg(long, value_name = "HAZARD", value_parser = argument::parse_hazard, help_heading = ASKED)]
    pub(crate) allow: Vec<Hazard>,
    /// Accept that scenarios selected by exact name were skipped, for this reason.
    #[arg(long, value_name = "REASON", value_parser = argument::reason, help_heading = JUDGED, hide_short_help = true)]
    pub(crate) allow_skip: Option<String>,
    /// Exit 4 with fewer usable GPUs or conclusive answers: gpus=N, answers=N.
    #[arg(long, value_name = "WHAT=N", value_parser = argument::parse_requirement, help_heading = JUDGED)]
    pub(crate) require: Vec<Requirement>,
    /// Add a label to the report, e.g. node=gpu-17 (repeatable).
    #[arg(long, value_name = "KEY=VALUE", value_parser = argument::label, help_heading = WRITTEN, hide_short_help = true)]
    pub(crate) label: Vec<(String, String)>,
    /// Store TEXT in the report and derive the order of attempts from it. The person who
    /// requested the report checks it with `judge --nonce`.
    #[arg(long, value_name = "TEXT", value_parser = argument::parse_nonce, help_heading = WRITTEN, hide_short_help = true)]
    pub(crate) nonce: Option<String>,
    /// Omit steps, attempts and samples from the report.
    #[arg(long, help_heading = WRITTEN, hide_short_help = true)]
    pub(crate) compact: bool,
    /// Run every N-th instance, starting with the I-th.
    #[arg(long, value_name = "I/N", value_parser = argument::parse_shard, help_heading = ASKED, hide_short_help = true)]
    pub(crate) shard: Option<Shard>,
    /// Stop after the first unexpected verdict.
    #[arg(long, help_heading = HOW_OFTEN)]
    pub(crate) fail_fast: bool,
    /// Print the plan and the estimated duration; start no worker.
    #[arg(long, help_heading = HOW_OFTEN)]
    pub(crate) dry_run: bool,
}

/// Exclusions from a selection.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ExclusionOptions {
    /// Exclude what this selector matches, like `!SELECTOR` (repeatable).
    #[arg(long, value_name = "SELECTOR", help_heading = ASKED, hide_short_help = true)]
    pub(crate) exclude: Vec<String>,
}

/// Target, attempts and output, shared by `run` and `survey`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct WorkerOptions {
    /// Target: `cuda` (this machine's GPUs), `sim[:MACHINE]` (simulated) or `auto`.
    #[arg(long, default_value = defaults::ON, value_parser = argument::on, help_heading = WHERE)]
    pub(crate) on: On,
    /// Parent directory of the run's directory [default: reports, if a GPU is usable or a machine
    /// was named].
    #[arg(long, value_name = "FOLDER", help_heading = WRITTEN)]
    pub(crate) out: Option<PathBuf>,
    #[arg(help = repeat_help(), long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = HOW_OFTEN)]
    pub(crate) repeat: Option<u32>,
    /// Run one attempt per case: fast, without statistics.
    #[arg(long, conflicts_with = "repeat", help_heading = HOW_OFTEN)]
    pub(crate) quick: bool,
    /// Print one JSON document (the report, or the error).
    #[arg(long, help_heading = WRITTEN)]
    pub(crate) json: bool,
    /// Print only failures and the final counts.
    #[arg(short, long, help_heading = WRITTEN)]
    pub(crate) quiet: bool,
    /// libcudart to use (repeatable).
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    pub(crate) libcudart: Vec<PathBuf>,
    /// libcuda to use, e.g. from a compatibility package [default: the loader's].
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    pub(crate) libcuda: Option<PathBuf>,
    /// Python interpreter [default: $CUDA_PITFALLS_PYTHON, then python3 on PATH].
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    pub(crate) python: Option<PathBuf>,
    /// UUIDs of the GPUs that may be used, comma-separated.
    #[arg(long, value_name = "UUIDS", value_delimiter = ',', help_heading = WHERE, hide_short_help = true)]
    pub(crate) gpus: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) locks: LockOptions,
    /// Seed for the order of attempts (below 2^53).
    #[arg(long, value_parser = clap::value_parser!(u64).range(..1 << 53), help_heading = HOW_OFTEN, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
}

/// Coordination with other runs on the same GPUs.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LockOptions {
    /// Directory of the lock files, shared by all users of the GPUs.
    #[arg(long, value_name = "DIR", default_value = defaults::LOCK_FOLDER, help_heading = WHERE, hide_short_help = true)]
    pub(crate) lock_dir: PathBuf,
    /// Do not lock the GPUs; concurrent runs disturb each other.
    #[arg(long, conflicts_with_all = ["lock_dir", "wait"], help_heading = WHERE, hide_short_help = true)]
    pub(crate) no_lock: bool,
    /// How long to wait for another run, e.g. 90s, 10m, 0s.
    #[arg(long, value_name = "DURATION", default_value = defaults::WAIT, value_parser = argument::parse_duration, help_heading = WHERE, hide_short_help = true)]
    pub(crate) wait: Duration,
}

/// Labels by name.
type Labels = BTreeMap<String, String>;

impl WorkerOptions {
    /// Attempts of each case; `None` if the scenario files decide.
    pub(super) fn attempts(&self) -> Option<u32> {
        if self.quick { Some(1) } else { self.repeat }
    }
}

impl RunOptions {
    /// Selects the scenarios to run.
    pub(super) fn select_scenarios(&self) -> Result<Selection, RunError> {
        Selection::new(
            &self.selectors,
            &self.left_out.exclude,
            Unselected::Essential,
        )
        .map(|selection| selection.keep_shard(self.shard))
        .map_err(|error| RunError::Usage(error.render(false)))
    }

    /// Returns the time limit of the run; `None` if unlimited. A first run should answer within a minute: it runs as
    /// many rounds as fit, at least one.
    pub(super) fn time_budget(&self) -> Option<Duration> {
        let mut selectors = self.selectors.iter();
        let is_default =
            selectors.all(|selector| selector.starts_with('!') || selector == "essential");
        let sets_attempts = self.asked.repeat.is_some() || self.asked.quick;
        if is_default && !sets_attempts {
            Some(BUDGET)
        } else {
            None
        }
    }

    /// Returns all selectors as one list: exclusions begin with `!`, and the default set is named.
    pub(super) fn all_selectors(&self) -> Vec<String> {
        let mut all = self.selectors.clone();
        if all.iter().all(|selector| selector.starts_with('!')) {
            all.insert(0, "essential".to_string());
        }
        for selector in &self.left_out.exclude {
            all.push(format!("!{selector}"));
        }
        all
    }

    /// Returns the labels by name.
    ///
    /// # Errors
    /// Returns an error if a name is given twice.
    pub(super) fn collect_labels(&self) -> Result<Labels, RunError> {
        let mut labels = Labels::new();
        for (name, value) in &self.label {
            if labels.insert(name.clone(), value.clone()).is_some() {
                return Err(RunError::Usage(format!("--label: `{name}` is given twice")));
            }
        }
        Ok(labels)
    }
}

fn repeat_help() -> String {
    format!(
        "Attempts per case [default: as the scenario says; {} in a survey, {} for a generated mask]",
        defaults::SURVEY_REPEAT,
        defaults::GENERATED_REPEAT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_given_once() {
        let collect = |label: [(&str, &str); 2]| {
            let label = label.map(|(name, value)| (name.to_string(), value.to_string()));
            let options = RunOptions {
                label: label.into(),
                ..RunOptions::default()
            };
            options.collect_labels()
        };
        let twice = collect([("node", "a"), ("node", "b")]).unwrap_err();
        assert_eq!(twice.to_string(), "--label: `node` is given twice");
        let both = collect([("rack", "3"), ("node", "a")]).unwrap();
        assert!(
            both.len() == 2 && both["node"] == "a" && both["rack"] == "3",
            "{both:?}"
        );
    }
}
