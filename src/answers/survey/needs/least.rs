//! The least that is needed, from the rows: what may be denied, and with which error; what must not be denied; and
//! whether a program behaves the same if everything else is denied as without a filter.

use std::collections::{BTreeMap, BTreeSet};

use super::{AND, BUT, EVERYTHING_ELSE, NeedRow, NeedsMoment, NeedsProgram, control};
use crate::survey::row::KindRow;
use cuda_pitfalls_core::refusal;

/// Needs of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Files and system calls for which every error makes a difference.
    pub needed: BTreeSet<String>,
    /// Files and system calls that make no difference if they are denied, with an error that makes no difference.
    pub refusable: BTreeMap<String, String>,
    /// `true` if the program behaves the same when all of `refusable` is denied at once; `None` if that was not tested.
    pub suffices: Option<bool>,
    /// Members of `refusable` if denying all of it at once is too much: each of them, allowed by itself, makes up for
    /// the rest.
    pub one_of: BTreeSet<String>,
    /// Members of `needed` that make a difference if they are denied together with all of `refusable`, without the
    /// first of `one_of`. Members that were not tested are in neither of the two.
    pub confirmed: BTreeSet<String>,
    /// Members of `needed` that make no difference in that test.
    pub doubtful: BTreeSet<String>,
}

/// Errors in the order of preference of a sandbox.
const PREFERRED: [&str; 5] = ["EPERM", "EACCES", "ENOENT", "ENOSYS", "EMFILE"];

impl Least {
    /// Returns the members of `refusable` that may be denied at once, and the one that must be allowed in that case.
    pub fn at_once(&self) -> (BTreeMap<String, String>, Option<&str>) {
        let mut rest = self.refusable.clone();
        let allowed = self.one_of.first();
        if let Some(allowed) = allowed {
            rest.remove(allowed);
        }
        (rest, allowed.map(String::as_str))
    }

    /// Returns `true` if the program needs no more than is known; `None` if that was not tested.
    pub fn is_enough(&self) -> Option<bool> {
        self.suffices
            .map(|suffices| suffices || !self.one_of.is_empty())
    }
}

/// Returns the needs of a program from its first call on.
pub fn least(rows: &[NeedRow], program: NeedsProgram) -> Least {
    let mut least = Least::default();
    let Some(control) = control(rows, program, NeedsMoment::Init) else {
        return least;
    };
    let mut by_target: BTreeMap<&str, Vec<(&str, bool)>> = BTreeMap::new();
    for row in rows {
        let is_asked = (row.program, row.moment) == (program, NeedsMoment::Init);
        if !is_asked || !row.is_conclusive() || row.met == Some(false) {
            continue;
        }
        let (Some(refused), Some(error)) = (row.refused.as_deref(), row.error.as_deref()) else {
            continue;
        };
        let differs = row.differs_from(control);
        match refused.strip_prefix(EVERYTHING_ELSE) {
            None => by_target.entry(refused).or_default().push((error, differs)),
            Some("") => least.suffices = Some(!differs),
            Some(rest) => match rest.split_once(AND) {
                Some((_, needed)) if differs => drop(least.confirmed.insert(needed.to_string())),
                Some((_, needed)) => drop(least.doubtful.insert(needed.to_string())),
                None if differs => {}
                None => drop(
                    least
                        .one_of
                        .insert(rest.trim_start_matches(BUT).to_string()),
                ),
            },
        }
    }
    for (target, tried) in by_target {
        match PREFERRED
            .iter()
            .find(|error| tried.contains(&(**error, false)))
        {
            Some(error) => drop(
                least
                    .refusable
                    .insert(target.to_string(), (*error).to_string()),
            ),
            None => drop(least.needed.insert(target.to_string())),
        }
    }
    least
}

/// Common needs of all programs of a survey, for a sandbox that has to let them run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// System calls that are needed, including those for starting a process and loading the libraries.
    pub system_calls: BTreeSet<String>,
    /// System calls that may be denied, with an error that makes no difference.
    pub refusable: BTreeMap<String, String>,
    /// `true` if each program behaved the same with everything else denied; `None` if that was not tested with all of
    /// them.
    pub verified: Option<bool>,
    /// Frameworks that were tested too.
    pub frameworks: Vec<NeedsProgram>,
    /// Programs among libcuda, libcudart and NVML that were not tested with denials, so their needs are missing here.
    pub lacks: Vec<NeedsProgram>,
}

/// Returns the permissions that follow from these rows.
pub fn needed_permissions(rows: &[NeedRow]) -> Permissions {
    let mut all = Permissions::default();
    let mut verified = Some(true);
    let mut refusable: BTreeMap<String, String> = BTreeMap::new();
    for program in NeedsProgram::ALL {
        let control = control(rows, program, NeedsMoment::Init);
        // A framework that was not tested has no known needs.
        if program.is_framework() && !control.is_some_and(KindRow::is_conclusive) {
            continue;
        }
        let least = least(rows, program);
        if program.is_framework() {
            all.frameworks.push(program);
        } else if least.needed.is_empty() && least.refusable.is_empty() {
            all.lacks.push(program);
        }
        verified = verified.zip(least.is_enough()).map(|(all, one)| all && one);
        let asked = control.map(|row| row.asked.as_slice()).unwrap_or_default();
        let (files, calls) = super::needs_of_calls(asked, |_| true);
        for needed in least.needed.iter().chain(least.one_of.first()) {
            if !files.contains_key(needed.as_str()) {
                all.system_calls.insert(needed.clone());
            }
        }
        // Calls that no row denies are allowed, because no program runs without them.
        for call in calls {
            if !least.needed.contains(call) && !least.refusable.contains_key(call) {
                all.system_calls.insert(call.to_owned());
            }
        }
        refusable.extend(least.refusable);
    }
    // A fresh process is recorded from its first instruction on, so its record includes the needs of the loader.
    let fresh = control(rows, NeedsProgram::Driver, NeedsMoment::Spawned);
    let start = fresh.map(|row| row.asked.as_slice()).unwrap_or_default();
    for asked in start {
        if asked.during == super::programs::START {
            // Only the harness applies a filter to itself.
            let calls = asked.system_calls.keys();
            let calls = calls.filter(|call| *call != refusal::STEP);
            all.system_calls.extend(calls.cloned());
        }
    }
    refusable.retain(|target, _| !target.starts_with('/') && !all.system_calls.contains(target));
    all.refusable = refusable;
    all.verified = verified;
    all
}
