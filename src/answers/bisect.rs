//! `bisect`: the first release of a package where a command does what is forbidden.
//!
//! This module contains the search and its document. The caller tries the releases.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::releases::version_order;
use cuda_pitfalls_core::report::SchemaId;

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-bisection";

/// A version of each package.
type PackageVersions = BTreeMap<String, String>;

/// Outcome of a command with some versions, and the time that the trial took in nanoseconds; `None` if the user stopped
/// it.
type TrialResult<E> = Result<Option<(ReleaseOutcome, u64)>, E>;

/// Outcome of a command with these versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReleaseOutcome {
    /// The command did nothing forbidden.
    Good,
    /// The command did something forbidden.
    Bad {
        /// Description of the driver that the command ran with.
        with: String,
        /// Description of the forbidden action: one sentence without a final period.
        says: String,
        /// The innermost public function of a package in the stack of the first `cuInit`, and where it was.
        at: Option<String>,
        /// The functions in that stack, outermost first.
        way: Vec<String>,
        /// The command of the process with the forbidden action, if it is a child.
        child: Option<String>,
    },
    /// Undetermined: these versions cannot be installed, or the command fails with them.
    Unknown {
        /// Reason.
        why: String,
    },
}

impl ReleaseOutcome {
    fn is_bad(&self) -> Option<bool> {
        match self {
            ReleaseOutcome::Good => Some(false),
            ReleaseOutcome::Bad { .. } => Some(true),
            ReleaseOutcome::Unknown { .. } => None,
        }
    }
}

/// A trial of the command with some versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The versions of the packages in question.
    pub versions: BTreeMap<String, String>,
    /// Outcome of the command with these versions.
    pub outcome: ReleaseOutcome,
    /// Duration of installation and trial, in nanoseconds.
    pub elapsed_ns: u64,
}

/// The releases of one package, from the good end to the bad one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseAxis {
    /// The package.
    pub package: String,
    /// The releases of the package, the good one first.
    pub releases: Vec<String>,
}

impl ReleaseAxis {
    /// Returns the releases from the good one to the bad one, both included, even if they are not listed.
    pub fn between(package: &str, listed: &[String], good: &str, bad: &str) -> ReleaseAxis {
        let is_forward = version_order(good, bad).is_le();
        let (low, high) = if is_forward { (good, bad) } else { (bad, good) };
        let mut releases = listed.to_vec();
        releases.retain(|version| {
            version_order(version, low).is_gt() && version_order(version, high).is_lt()
        });
        releases.extend([low.to_string(), high.to_string()]);
        releases.sort_by(|a, b| version_order(a, b));
        releases.dedup();
        if !is_forward {
            releases.reverse();
        }
        ReleaseAxis {
            package: package.to_string(),
            releases,
        }
    }

    /// Returns the releases below and above one, nearest first.
    pub fn releases_around<'l>(listed: &'l [String], version: &str) -> [Vec<&'l str>; 2] {
        let [mut below, mut above] = [const { Vec::new() }; 2];
        for other in listed {
            match version_order(other, version) {
                Ordering::Less => below.push(other.as_str()),
                Ordering::Equal => {}
                Ordering::Greater => above.push(other.as_str()),
            }
        }
        below.sort_by(|a, b| version_order(b, a));
        above.sort_by(|a, b| version_order(a, b));
        [below, above]
    }

    fn release_at(&self, index: usize) -> String {
        self.releases.get(index).cloned().unwrap_or_default()
    }

    /// Returns the first release: the good end.
    pub fn good_release(&self) -> &str {
        self.releases
            .first()
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// Returns the last release: the bad end.
    pub fn bad_release(&self) -> &str {
        self.releases.last().map(String::as_str).unwrap_or_default()
    }
}

/// The first release of a package where a command does what is forbidden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirstBad {
    /// The package.
    pub package: String,
    /// Last release without the forbidden action.
    pub last_good: String,
    /// First release that is known to have the forbidden action.
    pub first_bad: String,
    /// Releases between the two whose outcome could not be determined. If there are any, one of them may be the first.
    pub between: Vec<String>,
}

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoAnswer {
    /// The forbidden action occurs with the good versions too.
    GoodIsBad,
    /// The forbidden action does not occur with the bad versions.
    BadIsGood,
    /// The outcome of the good versions could not be determined.
    GoodIsUnknown,
    /// The outcome of the bad versions could not be determined.
    BadIsUnknown,
    /// The user stopped the search.
    Interrupted,
}

/// A search, from its question to its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bisection {
    /// Schema of this document.
    pub schema: SchemaId,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// Start of the search: RFC 3339, UTC.
    pub started_at: String,
    /// Forbidden actions.
    pub forbid: Vec<String>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Other installed packages.
    pub with: Vec<String>,
    /// Version or path of the interpreter; null if the installer chooses it.
    pub python: Option<String>,
    /// The packages in question, each with its releases.
    pub axes: Vec<ReleaseAxis>,
    /// Trials in the order in which they ran.
    pub trials: Vec<Trial>,
    /// First bad release of each package that makes the difference by itself. If the packages make the difference only
    /// together: the first bad release of each, with the other package at its first bad release.
    pub found: Vec<FirstBad>,
    /// `true` if the difference needs all packages in `found` together.
    pub together: bool,
    /// Reason why there is no answer.
    pub no_answer: Option<NoAnswer>,
    /// Duration of the search, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Bisection {
    /// Returns the trial with these versions.
    pub fn find_trial(&self, versions: &BTreeMap<String, String>) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.versions == *versions)
    }

    /// Returns the trial that shows the first bad release.
    pub fn shown(&self, found: &FirstBad) -> Option<&Trial> {
        self.trials.iter().rfind(|trial| {
            let is_first_bad = trial.versions.get(&found.package) == Some(&found.first_bad);
            is_first_bad && matches!(trial.outcome, ReleaseOutcome::Bad { .. })
        })
    }

    /// Returns `true` if the answer is exact.
    pub fn is_exact(&self) -> bool {
        !self.found.is_empty() && self.found.iter().all(|found| found.between.is_empty())
    }

    /// Searches for the first bad release. `attempt` runs the command with these versions of all packages, and returns
    /// `None` if the user stopped it. No combination is tried twice.
    pub fn find_first_bad<E>(
        &mut self,
        mut attempt: impl FnMut(&PackageVersions) -> TrialResult<E>,
    ) -> Result<(), E> {
        let axes = self.axes.clone();
        let (mut goods, mut bads) = (BTreeMap::new(), BTreeMap::new());
        for axis in &axes {
            goods.insert(axis.package.clone(), axis.good_release().to_owned());
            bads.insert(axis.package.clone(), axis.bad_release().to_owned());
        }
        if !self.check_ends(&goods, &bads, &mut attempt)? {
            return Ok(());
        }
        let mut alone = Vec::new();
        for axis in &axes {
            let mut versions = goods.clone();
            versions.insert(axis.package.clone(), axis.bad_release().to_string());
            let Some(outcome) = self.attempt(&versions, &mut attempt)? else {
                return Ok(());
            };
            if outcome.is_bad() == Some(true) {
                alone.push(axis);
            }
        }
        self.together = alone.is_empty();
        let (searched, mut rest) = if self.together {
            (axes.iter().collect(), bads)
        } else {
            (alone, goods)
        };
        for axis in searched {
            let Some(found) = self.search_axis(axis, &rest, &mut attempt)? else {
                return Ok(());
            };
            if self.together {
                rest.insert(axis.package.clone(), found.first_bad.clone());
            }
            self.found.push(found);
        }
        Ok(())
    }

    /// Tries both ends. Returns `false` if there is no answer: an end does not have the expected outcome, or the user
    /// stopped the search.
    fn check_ends<E>(
        &mut self,
        goods: &PackageVersions,
        bads: &PackageVersions,
        attempt: &mut impl FnMut(&PackageVersions) -> TrialResult<E>,
    ) -> Result<bool, E> {
        let mut ends = [
            (goods, false, NoAnswer::GoodIsBad, NoAnswer::GoodIsUnknown),
            (bads, true, NoAnswer::BadIsGood, NoAnswer::BadIsUnknown),
        ];
        // Try the cheaper end first. Nothing is cached yet, and packages that contain CUDA have grown from release to
        // release: the older end is the smaller download. A better estimate would need a query of the index for all
        // dependencies.
        if self
            .axes
            .first()
            .is_some_and(|axis| version_order(axis.bad_release(), axis.good_release()).is_lt())
        {
            ends.reverse();
        }
        for (versions, wanted, wrong, unknown) in ends {
            let Some(outcome) = self.attempt(versions, attempt)? else {
                return Ok(false);
            };
            self.no_answer = match outcome.is_bad() {
                Some(is_bad) if is_bad == wanted => continue,
                Some(_) => Some(wrong),
                None => Some(unknown),
            };
            return Ok(false);
        }
        Ok(true)
    }

    /// Searches along one package, with these versions of the others. Returns `None` if the user stopped the search.
    fn search_axis<E>(
        &mut self,
        axis: &ReleaseAxis,
        rest: &PackageVersions,
        attempt: &mut impl FnMut(&PackageVersions) -> TrialResult<E>,
    ) -> Result<Option<FirstBad>, E> {
        // Both ends are known: the last good release before the first bad one, and the first bad one.
        let (mut good, mut bad) = (0, axis.releases.len().saturating_sub(1));
        let mut unknown = BTreeSet::new();
        loop {
            let middle = good + (bad - good) / 2;
            let between = good + 1..bad;
            let untried = between.clone().filter(|at| !unknown.contains(at));
            let Some(at) = untried.min_by_key(|at| at.abs_diff(middle)) else {
                return Ok(Some(FirstBad {
                    package: axis.package.clone(),
                    last_good: axis.release_at(good),
                    first_bad: axis.release_at(bad),
                    between: between.map(|index| axis.release_at(index)).collect(),
                }));
            };
            let mut versions = rest.clone();
            versions.insert(axis.package.clone(), axis.release_at(at));
            let Some(outcome) = self.attempt(&versions, attempt)? else {
                return Ok(None);
            };
            match outcome.is_bad() {
                Some(true) => bad = at,
                Some(false) => good = at,
                None => drop(unknown.insert(at)),
            }
        }
    }

    fn attempt<E>(
        &mut self,
        versions: &PackageVersions,
        attempt: &mut impl FnMut(&PackageVersions) -> TrialResult<E>,
    ) -> Result<Option<ReleaseOutcome>, E> {
        if let Some(known) = self.find_trial(versions) {
            return Ok(Some(known.outcome.clone()));
        }
        let Some((outcome, elapsed_ns)) = attempt(versions)? else {
            self.no_answer = Some(NoAnswer::Interrupted);
            return Ok(None);
        };
        self.trials.push(Trial {
            versions: versions.clone(),
            outcome: outcome.clone(),
            elapsed_ns,
        });
        Ok(Some(outcome))
    }
}
