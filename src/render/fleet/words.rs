//! The text of a difference. It gives both sides and is the same in every format.

use std::collections::HashMap;

use crate::change;
use cuda_pitfalls_answers::fleet::{
    ByteSpread, Difference, FactDiffers, Fleet, Key, Question, Rank, Usual, What,
};
use cuda_pitfalls_core::fact::Change;
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Kind;

pub(super) fn rank_words(rank: Rank) -> &'static str {
    match rank {
        Rank::Verdict => "different verdict",
        Rank::Fact => "different results",
        Rank::NoAnswer => "no answer",
        Rank::Bytes => "different memory",
    }
}

/// A difference, with both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contrast {
    /// `verdict`, `trap 2 cudaSetDevice`, `trap/gpu0`.
    pub(super) about: String,
    pub(super) usual: String,
    pub(super) these: String,
}

impl Contrast {
    fn new(about: &str, usual: String, these: String) -> Contrast {
        Contrast {
            about: about.to_owned(),
            usual,
            these,
        }
    }
}

/// Deviation of some machines from the usual outcome, with names and words in place of indices.
#[derive(Clone, Debug)]
pub(super) struct Deviation<'a> {
    pub(super) difference: &'a Difference,
    pub(super) rank: Rank,
    pub(super) name: &'a str,
    /// The text of the question; empty for rows of surveys.
    pub(super) question: &'a str,
    pub(super) page: Option<&'a str>,
    /// Common properties of the machines of the group; empty if the document does not contain them.
    pub(super) group: String,
    pub(super) machines: Vec<&'a str>,
    pub(super) asked: usize,
    /// `true` if no outcome has a majority.
    pub(super) is_split: bool,
    pub(super) contrasts: Vec<Contrast>,
}

impl<'a> Deviation<'a> {
    fn new(fleet: &'a Fleet, difference: &'a Difference, usual: Option<&Usual>) -> Deviation<'a> {
        let question = fleet.questions.get(difference.question);
        let group = fleet.groups.get(difference.group);
        let asked = group
            .zip(usual)
            .map(|(group, usual)| group.machines.len().saturating_sub(usual.not_asked.len()));
        Deviation {
            difference,
            rank: Rank::new(&difference.what),
            name: question.map_or("unknown", |question| &question.name),
            question: question.map_or("", |question| &question.question),
            page: question.and_then(|question| question.page.as_deref()),
            group: group.map(|group| key(&group.key)).unwrap_or_default(),
            machines: difference
                .machines
                .iter()
                .map(|index| name(fleet, *index))
                .collect(),
            // A document may contradict itself.
            asked: asked.unwrap_or_default().max(
                difference
                    .machines
                    .len()
                    .saturating_add(difference.usual_machines),
            ),
            is_split: difference.is_split,
            contrasts: list_contrasts(&difference.what, usual, question),
        }
    }

    pub(super) fn these(&self) -> usize {
        self.difference.machines.len()
    }

    /// Returns the share of the outliers: `another verdict on 1 of 120 machines`, or how a group is split.
    pub(super) fn outlier_share(&self) -> String {
        let what = rank_words(self.rank);
        let (these, usual) = (self.these(), self.difference.usual_machines);
        if self.is_split {
            return format!("{what}: {these} against {usual}, no majority");
        }
        format!(
            "{what} on {these} of {}",
            counted(self.asked as u64, "machine")
        )
    }
}

/// Returns the deviations, the most important first.
pub(super) fn in_words(fleet: &Fleet) -> Vec<Deviation<'_>> {
    let mut usual: HashMap<(usize, usize), &Usual> = HashMap::new();
    for (index, group) in fleet.groups.iter().enumerate() {
        for one in &group.usual {
            usual.entry((index, one.question)).or_insert(one);
        }
    }
    let all = fleet.differences.iter();
    all.map(|one| Deviation::new(fleet, one, usual.get(&(one.group, one.question)).copied()))
        .collect()
}

fn list_contrasts(
    what: &What,
    usual: Option<&Usual>,
    question: Option<&Question>,
) -> Vec<Contrast> {
    let is_row = question.is_some_and(|question| question.is_row);
    match what {
        What::Outcome {
            outcome,
            verdict_differs,
            facts,
        } => {
            let mut contrasts = Vec::new();
            if *verdict_differs {
                contrasts.push(Contrast::new(
                    "verdict",
                    usual_verdict(usual, 0, is_row),
                    usual_verdict(usual, *outcome, is_row),
                ));
            }
            for fact in facts {
                contrasts.push(Contrast::new(
                    &about(fact),
                    seen_or(fact.usual.as_ref(), "absent"),
                    seen_or(fact.these.as_ref(), "absent"),
                ));
            }
            contrasts
        }
        What::Bytes {
            figure,
            usual,
            these,
        } => {
            let change = these.median_bytes.saturating_sub(usual.median_bytes);
            let these = format!("{} ({})", spread_words(these), units::format_delta(change));
            vec![Contrast::new(figure, spread_words(usual), these)]
        }
        What::NoAnswer { reasons } => {
            let mut words = Vec::new();
            for (reason, times) in reasons {
                words.push(match times {
                    1 => reason.clone(),
                    times => format!("{reason} ({times} machines)"),
                });
            }
            let none = format!("no answer: {}", words.join(", "));
            let usual = usual_verdict(usual, 0, is_row);
            vec![Contrast::new("verdict", usual, none)]
        }
    }
}

/// Returns the verdict of an outcome of the group, by its index; `unknown` if the index is not valid.
fn usual_verdict(usual: Option<&Usual>, outcome: usize, is_row: bool) -> String {
    match usual.and_then(|usual| usual.outcomes.get(outcome)) {
        Some(outcome) => verdict(outcome.kind, is_row),
        None => "unknown".to_owned(),
    }
}

/// Returns the change as text, or `none`.
pub(super) fn seen_or(seen: Option<&Change>, none: &str) -> String {
    match seen {
        Some(seen) => change::words(seen),
        None => none.to_owned(),
    }
}

/// Returns the subject of a fact that differs: `trap 2 cudaSetDevice`.
pub(super) fn about(fact: &FactDiffers) -> String {
    let words = match fact.usual.as_ref().or(fact.these.as_ref()) {
        Some(change) => change::about(change),
        None => String::new(),
    };
    if fact.case.is_empty() {
        return words;
    }
    match fact.outcome {
        1 => format!("{} {words}", fact.case),
        which => format!("{} (or {which}) {words}", fact.case),
    }
}

/// Returns a verdict as text: `yes (reproduced)` for a question, whose verdict is a yes or a no. For a row of a survey,
/// the yes or no is omitted.
pub(super) fn verdict(kind: Kind, is_row: bool) -> String {
    match kind {
        Kind::Reproduced if is_row => "measured".to_owned(),
        Kind::Reproduced => "yes (reproduced)".to_owned(),
        Kind::NotReproduced => "no (not_reproduced)".to_owned(),
        other => other.name().to_owned(),
    }
}

/// Returns the figures of several machines: `527 MiB`, or the median with the distance of the others from it.
fn spread_words(spread: &ByteSpread) -> String {
    let median = units::format_delta(spread.median_bytes);
    if spread.least_bytes == spread.most_bytes {
        return median;
    }
    format!(
        "{median} (median; MAD {}, {} to {})",
        units::bytes(spread.mad_bytes.unsigned_abs()),
        units::format_delta(spread.least_bytes),
        units::format_delta(spread.most_bytes)
    )
}

pub(super) fn name(fleet: &Fleet, index: usize) -> &str {
    match fleet.machines.get(index) {
        Some(machine) => &machine.name,
        None => "unknown",
    }
}

/// Returns the common properties of the machines of a group, on one line.
pub(super) fn key(key: &Key) -> String {
    let mut words = Vec::new();
    if let Some(label) = &key.label {
        words.push(format!("machines with {label}"));
    }
    if key.is_of_facts {
        return words.pop().unwrap_or_else(|| "all machines".to_owned());
    }
    words.push(match key.gpus.as_str() {
        "" => "no GPU".to_owned(),
        gpus => gpus.to_owned(),
    });
    words.push(match key.driver.as_str() {
        "" => "driver not known".to_owned(),
        driver => format!("driver {driver}"),
    });
    if !key.libcudart.is_empty() {
        words.push(format!("libcudart {}", key.libcudart));
    }
    if key.mig {
        words.push("MIG".to_owned());
    }
    if key.shared {
        words.push("shared with co-tenants".to_owned());
    }
    words.join(", ")
}

/// Returns the first names, and the number of others: `a, b and 12 more`.
pub(super) fn names(names: &[impl AsRef<str>], most: usize) -> String {
    let shown = listed(names.iter().take(most).map(AsRef::as_ref), "");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns the names as [`names`] lists them; `None` if the list is empty.
pub(super) fn any_names(all: &[impl AsRef<str>], most: usize) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    Some(names(all, most))
}
