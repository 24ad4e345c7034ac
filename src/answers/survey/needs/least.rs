//! The least that is needed, from the rows: what may be refused, and by which error; what may not; and whether a program
//! that is refused everything else does what it does without a filter.

use std::collections::{BTreeMap, BTreeSet};

use super::{EVERYTHING_ELSE, NeedRow, NeedsMoment, NeedsProgram, control};
use crate::survey::document::Row;
use cuda_pitfalls_core::recording::PathUse;
use cuda_pitfalls_core::refusal;

/// What one program needs, and what it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Files and system calls that every error makes a difference for.
    pub needed: BTreeSet<String>,
    /// What makes no difference if it is refused, with the error that makes none.
    pub refusable: BTreeMap<String, String>,
    /// Whether the program does the same where all of `refusable` is refused at once; `None` if that was not asked.
    pub suffices: Option<bool>,
    /// Of `needed`, what makes a difference if it is refused together with all of `refusable`; what was not asked is in
    /// neither of the two.
    pub confirmed: BTreeSet<String>,
    /// Of `needed`, what then makes none.
    pub doubtful: BTreeSet<String>,
}

/// The errors in the order in which a sandbox prefers them.
const PREFERRED: [&str; 5] = ["EPERM", "EACCES", "ENOENT", "ENOSYS", "EMFILE"];

/// What a program needs from its first call on.
pub fn least(rows: &[NeedRow], program: NeedsProgram) -> Least {
    let mut least = Least::default();
    let Some(control) = control(rows, program, NeedsMoment::Init) else { return least };
    let asked = rows.iter().filter(|row| (row.program, row.moment) == (program, NeedsMoment::Init));
    let mut by_target: BTreeMap<&str, Vec<(&str, bool)>> = BTreeMap::new();
    for row in asked.filter(|row| row.is_conclusive() && row.met != Some(false)) {
        let (Some(refused), Some(error)) = (row.refused.as_deref(), row.error.as_deref()) else { continue };
        let differs = row.differs(control);
        match refused.strip_prefix(EVERYTHING_ELSE) {
            None => by_target.entry(refused).or_default().push((error, differs)),
            Some("") => least.suffices = Some(!differs),
            Some(and) => {
                let and = and.trim_start_matches(" and ").to_string();
                if differs {
                    least.confirmed.insert(and)
                } else {
                    least.doubtful.insert(and)
                };
            }
        }
    }
    for (target, tried) in by_target {
        let harmless = |error: &&&str| tried.contains(&(**error, false));
        match PREFERRED.iter().find(harmless) {
            Some(error) => drop(least.refusable.insert(target.to_string(), (*error).to_string())),
            None => drop(least.needed.insert(target.to_string())),
        }
    }
    least
}

/// What all programs of a survey need together, for a sandbox that has to let them run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The device files, to be read and written.
    pub devices: BTreeSet<String>,
    /// Other files, and how they are used.
    pub files: BTreeMap<String, PathUse>,
    /// System calls that are needed, also to start a process and to load the libraries.
    pub system_calls: BTreeSet<String>,
    /// System calls that may be refused, with an error that makes no difference.
    pub refusable: BTreeMap<String, String>,
    /// Whether each program did the same with everything else refused; `None` if that was not asked of all of them.
    pub verified: Option<bool>,
}

/// What these rows say that must be allowed.
pub fn permissions(rows: &[NeedRow]) -> Permissions {
    let mut all = Permissions::default();
    let mut verified = Some(true);
    let mut refusable: BTreeMap<String, String> = BTreeMap::new();
    let record =
        |moment| control(rows, NeedsProgram::Driver, moment).map(|row| row.asked.as_slice()).unwrap_or_default();
    for program in NeedsProgram::ALL {
        let least = least(rows, program);
        verified = verified.zip(least.suffices).map(|(all, one)| all && one);
        let asked = control(rows, program, NeedsMoment::Init).map(|row| row.asked.as_slice()).unwrap_or_default();
        let (files, calls) = super::of_calls(asked, |_| true);
        for needed in &least.needed {
            match files.get(needed.as_str()) {
                Some(_) if needed.starts_with("/dev/") => drop(all.devices.insert(needed.clone())),
                Some(used) => drop(all.files.insert(needed.clone(), used.clone())),
                None => drop(all.system_calls.insert(needed.clone())),
            }
        }
        // What no row refuses is allowed: no program runs without it.
        let was_refused = |call: &str| least.needed.contains(call) || least.refusable.contains_key(call);
        all.system_calls.extend(calls.into_iter().filter(|call| !was_refused(call)).map(str::to_string));
        refusable.extend(least.refusable);
    }
    // A fresh process is recorded from its first instruction on, so its record has what the loader needs.
    let start = record(NeedsMoment::Spawned).iter().filter(|asked| asked.during == super::programs::START);
    // Nobody but the harness puts a filter on itself.
    let started = start.flat_map(|asked| asked.system_calls.keys()).filter(|call| *call != refusal::STEP);
    all.system_calls.extend(started.cloned());
    refusable.retain(|target, _| !target.starts_with('/') && !all.system_calls.contains(target));
    all.refusable = refusable;
    all.verified = verified;
    all
}
