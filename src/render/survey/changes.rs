//! What changed between versions of libcudart: calls that do something else, and calls that were added or removed.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::yes_no_unknown;
use cuda_pitfalls_answers::survey::calls::CallRow;
use cuda_pitfalls_core::text::versions::{Version, format_ranges, name, number};
use cuda_pitfalls_core::verdict::Reason;

/// What a call did, as far as versions are compared by it: whether it reads the mask, whether it makes a
/// context, what it returned. Nothing for a version that does not export it.
type Behaviour = Option<[String; 3]>;

/// What did not do the same with every version, and what was not always there.
pub(super) fn changes(rows: &[&CallRow]) -> [Section; 2] {
    let (by_call, all) = by_version(rows);
    let names: Vec<String> = all.iter().map(|version| name(version)).collect();
    let section = |title: &str, versions: &str| {
        let header = [
            "call",
            versions,
            "reads the mask",
            "makes a context",
            "returned",
        ];
        Section::new(title, &header, Vec::new(), &[0, 4])
    };
    let mut changed = section("What changed between versions of libcudart", "libcudart");
    let mut moved = section(
        "Calls of libcudart that were added or removed",
        "exported by",
    );
    changed.text.push(match names.as_slice() {
        [] => return Default::default(),
        [only] => format!("Of libcudart only {only} was asked."),
        some => format!("{} versions were asked: {}.", some.len(), some.join(", ")),
    });
    let whole = by_call
        .values()
        .filter(|versions| versions.len() == all.len())
        .count();
    if whole < by_call.len() {
        let calls = by_call.len();
        changed.text.push(format!(
            "{whole} of {calls} calls were asked with each of them, the rest with some. A range names those that were."
        ));
    }
    for (call, versions) in by_call {
        let did: Vec<(Version, Behaviour)> = versions
            .into_iter()
            .map(|(version, row)| (version, row_behavior(row)))
            .collect();
        let runs: Vec<_> = did.chunk_by(|(_, one), (_, other)| one == other).collect();
        let exported: BTreeSet<&[String; 3]> = did
            .iter()
            .filter_map(|(_, behaviour)| behaviour.as_ref())
            .collect();
        let (section, is_moved) = match (runs.len(), exported.len()) {
            (..=1, _) => continue,
            (_, 1) => (&mut moved, true),
            _ => (&mut changed, false),
        };
        for run in runs {
            let (versions, mut behaviours): (Vec<Version>, Vec<Behaviour>) =
                run.iter().cloned().unzip();
            let Some(behaviour) = behaviours.pop().filter(|it| it.is_some() || !is_moved) else {
                continue;
            };
            let facts = behaviour.unwrap_or_else(|| ["–", "–", "not exported"].map(str::to_string));
            let range = format_ranges(&versions, &all);
            section
                .rows
                .push([call.to_string(), range].into_iter().chain(facts).collect());
        }
    }
    if changed.rows.is_empty() && names.len() > 1 {
        changed
            .text
            .push("Every call did the same with each of them.".to_string());
    }
    if moved.rows.is_empty() {
        [changed, Section::default()]
    } else {
        [changed, moved]
    }
}

type ByVersion<'a> = BTreeMap<&'a str, BTreeMap<Version, &'a CallRow>>;

/// The rows of each call by version, and all versions.
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

/// Whether the call reads the mask; a dash where calls before it had initialised the driver.
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
