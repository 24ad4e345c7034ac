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

/// The groups of options in the help.
pub(crate) const ASKED: &str = "What is asked";
pub(crate) const WHERE: &str = "Where it is asked";
pub(crate) const HOW_OFTEN: &str = "How often, and how long";
pub(crate) const WRITTEN: &str = "What is printed and written";
pub(crate) const JUDGED: &str = "What counts as a failure";

/// How long a run of the default set may take, unless the command line sets the number of attempts.
const BUDGET: Duration = Duration::from_secs(60);

/// What can be given to `run`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RunOptions {
    /// `essential` (if none is given), `all`, names, their first words, folders, globs, tags, symptoms or paths of
    /// files; `!SELECTOR` leaves out what it matches.
    pub(crate) selectors: Vec<String>,
    #[command(flatten)]
    pub(crate) left_out: ExclusionOptions,
    #[command(flatten)]
    pub(crate) asked: WorkerOptions,
    /// Write JUnit XML too.
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub(crate) junit: Option<PathBuf>,
    /// Show every case of every scenario, instead of one answer per question.
    #[arg(short, long, conflicts_with = "quiet", help_heading = WRITTEN)]
    pub(crate) verbose: bool,
    /// Allow a hazard: fault, oversubscribe, bigmem, root, settings, code (Python lines of files of
    /// your own).
    #[arg(long, value_name = "HAZARD", value_parser = argument::parse_hazard, help_heading = ASKED)]
    pub(crate) allow: Vec<Hazard>,
    /// Accept that scenarios selected by their exact names were skipped, for this reason.
    #[arg(long, value_name = "REASON", value_parser = argument::reason, help_heading = JUDGED, hide_short_help = true)]
    pub(crate) allow_skip: Option<String>,
    /// Exit 4 with fewer usable GPUs, or fewer conclusive answers: gpus=N, answers=N.
    #[arg(long, value_name = "WHAT=N", value_parser = argument::parse_requirement, help_heading = JUDGED)]
    pub(crate) require: Vec<Requirement>,
    /// Write this into the report, for whoever reads many: node=gpu-17; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = argument::label, help_heading = WRITTEN, hide_short_help = true)]
    pub(crate) label: Vec<(String, String)>,
    /// Write this into the report, and let it decide the order of attempts: a text that somebody who asks for the report
    /// made up, and finds in it again (`judge --nonce`).
    #[arg(long, value_name = "TEXT", value_parser = argument::parse_nonce, help_heading = WRITTEN, hide_short_help = true)]
    pub(crate) nonce: Option<String>,
    /// Write a report without steps, attempts and samples: small enough to keep one of every machine.
    #[arg(long, help_heading = WRITTEN, hide_short_help = true)]
    pub(crate) compact: bool,
    /// Run only this part of the selection: every N-th instance, from the I-th.
    #[arg(long, value_name = "I/N", value_parser = argument::parse_shard, help_heading = ASKED, hide_short_help = true)]
    pub(crate) shard: Option<Shard>,
    /// Stop after the first unexpected verdict.
    #[arg(long, help_heading = HOW_OFTEN)]
    pub(crate) fail_fast: bool,
    /// Print what would run here, what does not apply, and how long it would take; start no worker.
    #[arg(long, help_heading = HOW_OFTEN)]
    pub(crate) dry_run: bool,
}

/// What is left out of a selection.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ExclusionOptions {
    /// Leave out what this selector matches, as `!SELECTOR` does; may be given several times.
    #[arg(long, value_name = "SELECTOR", help_heading = ASKED, hide_short_help = true)]
    pub(crate) exclude: Vec<String>,
}

/// Where and how often workers are asked, by `run` and `survey` alike.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct WorkerOptions {
    /// Where: `cuda` (this machine's GPUs), `sim[:MACHINE]` (the simulated machine), or `auto`.
    #[arg(long, default_value = defaults::ON, value_parser = argument::on, help_heading = WHERE)]
    pub(crate) on: On,
    /// Parent folder of the run's folder; without it `reports`, if a GPU can be asked or a machine to simulate was
    /// named.
    #[arg(long, value_name = "FOLDER", help_heading = WRITTEN)]
    pub(crate) out: Option<PathBuf>,
    #[arg(help = repeat_help(), long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = HOW_OFTEN)]
    pub(crate) repeat: Option<u32>,
    /// One attempt of each case: quick, without statistics.
    #[arg(long, conflicts_with = "repeat", help_heading = HOW_OFTEN)]
    pub(crate) quick: bool,
    /// One JSON document on stdout (the report; on failure, the error).
    #[arg(long, help_heading = WRITTEN)]
    pub(crate) json: bool,
    /// Print failures and the counts at the end only, and no progress.
    #[arg(short, long, help_heading = WRITTEN)]
    pub(crate) quiet: bool,
    /// A libcudart to run on; may be given several times.
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    pub(crate) libcudart: Vec<PathBuf>,
    /// The libcuda to run on, such as one of a compatibility package; without it, the loader's.
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    pub(crate) libcuda: Option<PathBuf>,
    /// The Python interpreter that runs Python lines; without it $CUDA_PITFALLS_PYTHON, or the first
    /// python3 on PATH.
    #[arg(long, value_name = "PATH", help_heading = WHERE, hide_short_help = true)]
    pub(crate) python: Option<PathBuf>,
    /// UUIDs of the GPUs that may be used, separated by commas.
    #[arg(long, value_name = "UUIDS", value_delimiter = ',', help_heading = WHERE, hide_short_help = true)]
    pub(crate) gpus: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) locks: LockOptions,
    /// The seed of the order of attempts, below 2^53.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..1 << 53), help_heading = HOW_OFTEN, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
}

/// How other runs on the same GPUs are waited for.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LockOptions {
    /// The folder of the lock files, one for each GPU; the same for all users of the GPUs.
    #[arg(long, value_name = "DIR", default_value = defaults::LOCK_FOLDER, help_heading = WHERE, hide_short_help = true)]
    pub(crate) lock_dir: PathBuf,
    /// Take no lock: another run on these GPUs at the same time disturbs this one.
    #[arg(long, conflicts_with_all = ["lock_dir", "wait"], help_heading = WHERE, hide_short_help = true)]
    pub(crate) no_lock: bool,
    /// How long to wait for another run, such as 90s, 10m or 0s.
    #[arg(long, value_name = "DURATION", default_value = defaults::WAIT, value_parser = argument::parse_duration, help_heading = WHERE, hide_short_help = true)]
    pub(crate) wait: Duration,
}

/// Labels by name.
type Labels = BTreeMap<String, String>;

impl WorkerOptions {
    /// The number of attempts of each case; `None` where the files decide it.
    pub(super) fn attempts(&self) -> Option<u32> {
        if self.quick { Some(1) } else { self.repeat }
    }
}

impl RunOptions {
    /// The scenarios to run.
    pub(super) fn select_scenarios(&self) -> Result<Selection, RunError> {
        Selection::new(
            &self.selectors,
            &self.left_out.exclude,
            Unselected::Essential,
        )
        .map(|selection| selection.keep_shard(self.shard))
        .map_err(|error| RunError::Usage(error.render(false)))
    }

    /// How long the run may take; `None` for no limit. A first run should answer within a minute: it makes as many
    /// rounds as fit, and at least one.
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

    /// All selectors as one list: exclusions begin with `!`, and the default set appears by its name.
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

    /// The labels by name.
    ///
    /// # Errors
    /// A name is given twice.
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
        "Attempts of each case; without it as the files set, {} in a survey, {} of a generated mask",
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
