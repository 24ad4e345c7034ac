//! Differences that look like one: of the same machines, of one kind, and alike.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spread::noise;
use super::{Difference, FactDiffers, Fleet, What, label};
use cuda_pitfalls_core::fact::Fact;

/// What differs on the same machines in the same way, in one question or in many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// In what the machines differ.
    pub alike: Alike,
    /// Places in [`Fleet::machines`].
    pub machines: Vec<usize>,
    /// Places in [`Fleet::questions`], each once, in the order of the differences.
    pub questions: Vec<usize>,
    /// Places in [`Fleet::differences`], the most important first.
    pub differences: Vec<usize>,
    /// Labels, `rack=3`, that all of these machines have and no other machine of their groups has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// What the differences of a cause have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Alike {
    /// Another outcome that begins with the same fact.
    Outcome {
        /// Whether the verdict is another one.
        verdict_differs: bool,
        /// The first fact that differs, as the first question has it; left out where none differs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fact: Option<FactDiffers>,
    },
    /// The same outcome with other figures, by the same amount.
    Bytes {
        /// How much more these machines use than usual; negative for less. Of the first difference, in bytes.
        more_bytes: i64,
        /// Whether a context takes as much more on these machines by the calibration of their own reports.
        is_context: bool,
    },
    /// No answer, for the same reasons.
    NoAnswer {
        /// The reasons that the reports give.
        reasons: Vec<String>,
    },
}

/// What must be equal for two differences to have one cause. Bytes must be within the noise of one another too.
#[derive(PartialEq, Eq, Hash)]
struct CauseKey<'a> {
    machines: &'a [usize],
    is_split: bool,
    kind: Discriminant<What>,
    /// Of another outcome: whether the verdict differs, and the step of the first fact that does.
    first: Option<(bool, &'a str)>,
    /// That fact on both sides.
    facts: [Option<&'a [Fact]>; 2],
    reasons: Vec<&'a String>,
}

/// What differs by cause, in the order of the first differences.
pub fn causes(fleet: &Fleet) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    let mut known: HashMap<CauseKey<'_>, Vec<usize>> = HashMap::new();
    for (place, difference) in fleet.differences.iter().enumerate() {
        let same = key(difference).map(|key| known.entry(key).or_default());
        let found = same.as_ref().and_then(|all| all.iter().find(|at| is_as_much(fleet, &causes[**at], difference)));
        match found.and_then(|at| causes.get_mut(*at)) {
            Some(cause) => {
                cause.differences.push(place);
                if !cause.questions.contains(&difference.question) {
                    cause.questions.push(difference.question);
                }
            }
            None => {
                same.into_iter().for_each(|all| all.push(causes.len()));
                causes.push(Cause {
                    alike: alike(fleet, difference),
                    machines: difference.machines.clone(),
                    questions: vec![difference.question],
                    differences: vec![place],
                    labels: Vec::new(),
                });
            }
        }
    }
    for cause in &mut causes {
        let differences = cause.differences.iter().filter_map(|at| fleet.differences.get(*at));
        let groups: BTreeSet<usize> = differences.map(|it| it.group).collect();
        cause.labels = label::only_of(fleet, &cause.machines, &groups);
    }
    causes
}

/// None where no other difference can have the same cause for sure: another verdict with the usual facts.
fn key(difference: &Difference) -> Option<CauseKey<'_>> {
    let (mut first, mut facts, mut reasons) = (None, [None, None], Vec::new());
    match &difference.what {
        What::Outcome { verdict_differs, facts: all, .. } => {
            let FactDiffers { usual, these, .. } = all.first()?;
            let label = usual.as_ref().or(these.as_ref()).map_or("", |change| change.label.as_str());
            facts = [usual, these].map(|change| change.as_ref().map(|change| change.facts.as_slice()));
            first = Some((*verdict_differs, label));
        }
        What::NoAnswer { reasons: known } => reasons.extend(known.keys()),
        What::Bytes { .. } => {}
    }
    let kind = discriminant(&difference.what);
    Some(CauseKey { machines: &difference.machines, is_split: difference.is_split(), kind, first, facts, reasons })
}

fn alike(fleet: &Fleet, difference: &Difference) -> Alike {
    match &difference.what {
        What::Outcome { verdict_differs, facts, .. } => {
            Alike::Outcome { verdict_differs: *verdict_differs, fact: facts.first().cloned() }
        }
        What::NoAnswer { reasons } => Alike::NoAnswer { reasons: reasons.keys().cloned().collect() },
        What::Bytes { .. } => {
            let (more_bytes, noise) = amount(fleet, difference).unwrap_or_default();
            let is_context = context(fleet, difference).is_some_and(|more| is_same(more, more_bytes, noise));
            Alike::Bytes { more_bytes, is_context }
        }
    }
}

/// Whether a difference in bytes is as large as the first of a cause; of other kinds no amount is asked.
fn is_as_much(fleet: &Fleet, cause: &Cause, difference: &Difference) -> bool {
    let first = cause.differences.first().and_then(|at| fleet.differences.get(*at));
    match (first.and_then(|first| amount(fleet, first)), amount(fleet, difference)) {
        (Some((a, noise_a)), Some((b, noise_b))) => is_same(a, b, noise_a.min(noise_b)),
        (None, None) => true,
        _ => false,
    }
}

fn is_same(a: i64, b: i64, noise: u64) -> bool {
    a.signum() == b.signum() && a.abs_diff(b) <= noise
}

/// How much more the machines use than usual, and what is noise there.
fn amount(fleet: &Fleet, difference: &Difference) -> Option<(i64, u64)> {
    let What::Bytes { usual, these, .. } = &difference.what else { return None };
    let is_shared = fleet.groups.get(difference.group).is_some_and(|group| group.key.shared);
    let more = these.median_bytes.saturating_sub(usual.median_bytes);
    Some((more, noise(usual.median_bytes, is_shared)))
}

/// How much more a context takes on these machines than on the others of the group: by the calibrations, in the middle.
fn context(fleet: &Fleet, difference: &Difference) -> Option<i64> {
    let group = fleet.groups.get(difference.group)?;
    let differs: HashSet<&usize> = difference.machines.iter().collect();
    let middle = |is_of_these: bool| {
        let members = group.machines.iter().filter(|machine| differs.contains(machine) == is_of_these);
        let figures = members.filter_map(|machine| fleet.machines.get(*machine)?.context_bytes);
        let mut figures: Vec<u64> = figures.collect();
        figures.sort_unstable();
        figures.get(figures.len() / 2).and_then(|bytes| i64::try_from(*bytes).ok())
    };
    Some(middle(true)?.saturating_sub(middle(false)?))
}
