//! The changes between versions of libcudart: calls that behave differently, and calls that were added or removed.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::yes_no_unknown;
use cuda_pitfalls_answers::survey::calls::CallRow;
use cuda_pitfalls_core::text::versions::{Version, format_ranges, name, number};
use cuda_pitfalls_core::verdict::Reason;

/// Behavior of a call, as far as versions are compared by it: whether it reads the mask, whether it creates a context,
/// what it returned. `None` for a version that does not export it.
type Behaviour = Option<[String; 3]>;

/// The columns in addition to the versions.
const FACTS: [&str; 3] = ["reads the mask", "creates a context", "returned"];

/// Returns the calls whose behavior changed between versions, and those that were added or removed.
pub(super) fn changes(rows: &[&CallRow]) -> [Section; 2] {
    let (by_call, all) = by_version(rows);
    let Some(asked) = asked_sentence(&all) else {
        return Default::default();
    };
    let mut changed = change_section("Changes between libcudart versions", "libcudart");
    let title = "Calls added to or removed from libcudart";
    let mut moved = change_section(title, "exported by");
    changed.text.push(asked);
    let counts = by_call.values().map(BTreeMap::len);
    let whole = counts.filter(|asked| *asked == all.len()).count();
    if whole < by_call.len() {
        let calls = by_call.len();
        changed.text.push(format!(
            "{whole} of {calls} calls were measured with every version, the others with some. Ranges show which versions were measured."
        ));
    }
    for (call, versions) in by_call {
        let mut did: Vec<(Version, Behaviour)> = Vec::new();
        for (version, row) in versions {
            did.push((version, row_behavior(row)));
        }
        let exported: BTreeSet<&[String; 3]> = did.iter().flat_map(|(_, facts)| facts).collect();
        // A call with a single behavior wherever it was exported was added or removed.
        let is_moved = exported.len() == 1;
        let section = if is_moved { &mut moved } else { &mut changed };
        section.rows.extend(run_rows(call, &did, &all, !is_moved));
    }
    if changed.rows.is_empty() && all.len() > 1 {
        let same = "Every call behaved the same with every version.";
        changed.text.push(same.to_string());
    }
    if moved.rows.is_empty() {
        moved = Section::default();
    }
    [changed, moved]
}

/// Returns the sentence about the versions that were measured; `None` if the list is empty.
fn asked_sentence(all: &[Version]) -> Option<String> {
    let names: Vec<String> = all.iter().map(|version| name(version)).collect();
    match names.as_slice() {
        [] => None,
        [only] => Some(format!("Only libcudart {only} was measured.")),
        some => Some(format!(
            "{} versions were measured: {}.",
            some.len(),
            some.join(", ")
        )),
    }
}

fn change_section(title: &str, versions: &str) -> Section {
    let header = [&["call", versions][..], &FACTS].concat();
    Section::new(title, &header, Vec::new(), &[0, 4])
}

/// Returns a row for each run of versions where a call behaved the same; empty if it always did.
fn run_rows(
    call: &str,
    did: &[(Version, Behaviour)],
    all: &[Version],
    with_missing: bool,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for run in did.chunk_by(|(_, facts), (_, next)| facts == next) {
        let Some((_, behaviour)) = run.first() else {
            continue;
        };
        if run.len() == did.len() || behaviour.is_none() && !with_missing {
            continue;
        }
        let versions: Vec<Version> = run.iter().map(|(version, _)| version.clone()).collect();
        let mut row = vec![call.to_string(), format_ranges(&versions, all)];
        match behaviour {
            Some(facts) => row.extend(facts.iter().cloned()),
            None => row.extend(["–", "–", "not exported"].map(str::to_string)),
        }
        rows.push(row);
    }
    rows
}

type ByVersion<'a> = BTreeMap<&'a str, BTreeMap<Version, &'a CallRow>>;

/// Returns the rows of each call by version, and all versions.
fn by_version<'a>(rows: &[&'a CallRow]) -> (ByVersion<'a>, Vec<Version>) {
    let mut by_call = ByVersion::new();
    for row in rows {
        let Some(version) = &row.libcudart_version else {
            continue;
        };
        by_call
            .entry(&row.call)
            .or_default()
            .insert(number(version), row);
    }
    let all: BTreeSet<&Version> = by_call.values().flat_map(BTreeMap::keys).collect();
    let all = all.into_iter().cloned().collect();
    (by_call, all)
}

/// Returns whether the call reads the mask, as text; a dash if calls before it had initialized CUDA.
pub(super) fn reads_mask_word(row: &CallRow) -> &'static str {
    match row.reads_mask {
        None if row.is_initialised_before() => "–",
        known => yes_no_unknown(known),
    }
}

fn row_behavior(row: &CallRow) -> Behaviour {
    if let Some(unmeasured) = &row.standing.unmeasured {
        return match unmeasured.reason {
            Reason::MissingSymbol => None,
            other => Some(["–".to_string(), "–".to_string(), other.name()]),
        };
    }
    Some([
        reads_mask_word(row).to_string(),
        yes_no_unknown(row.makes_context()).to_string(),
        row.status.clone().unwrap_or_else(|| "?".to_string()),
    ])
}
