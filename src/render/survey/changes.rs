//! What changed between versions of libcudart: calls that do something else, and calls that were added or removed.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::frozen;
use super::section::Section;
use cuda_pitfalls_answers::survey::calls::CallRow;
use cuda_pitfalls_core::text::versions::{Version, name, number, ranges};
use cuda_pitfalls_core::verdict::Reason;

/// What a call did, as far as versions are compared by it: whether it reads the mask, whether it makes a
/// context, what it returned. Nothing for a version that does not export it.
type Behaviour = Option<[String; 3]>;

/// Versions in order that do alike, of all that were asked.
type Run = (Vec<Version>, Behaviour);

/// What did not do the same with every version, and what was not always there.
pub(super) fn changes(rows: &[&CallRow]) -> [Section; 2] {
    let mut by_call: BTreeMap<&str, BTreeMap<Version, &CallRow>> = BTreeMap::new();
    for row in rows {
        let Some(version) = &row.libcudart_version else { continue };
        by_call.entry(&row.call).or_default().insert(number(version), row);
    }
    let all: Vec<Version> =
        by_call.values().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let names: Vec<String> = all.iter().map(|version| name(version)).collect();
    let section = |title: &str, versions: &str| Section {
        title: title.to_string(),
        header: ["call", versions, "reads the mask", "makes a context", "returned"].map(str::to_string).to_vec(),
        code: vec![0, 4],
        ..Section::default()
    };
    let mut changed = section("What changed between versions of libcudart", "libcudart");
    let mut moved = section("Calls of libcudart that were added or removed", "exported by");
    changed.text.push(match names.as_slice() {
        [] => return Default::default(),
        [only] => format!("Of libcudart only {only} was asked."),
        some => format!("{} versions were asked: {}.", some.len(), some.join(", ")),
    });
    let whole = by_call.values().filter(|versions| versions.len() == all.len()).count();
    if whole < by_call.len() {
        let calls = by_call.len();
        changed.text.push(format!(
            "{whole} of {calls} calls were asked with each of them, the rest with some. A range names those that were."
        ));
    }
    for (call, versions) in by_call {
        let runs = runs(&versions);
        let exported: BTreeSet<&Behaviour> =
            runs.iter().map(|(_, behaviour)| behaviour).filter(|it| it.is_some()).collect();
        let (section, listed): (_, Vec<Run>) = match (runs.len(), exported.len()) {
            (..=1, _) => continue,
            (_, 1) => (&mut moved, runs.into_iter().filter(|(_, behaviour)| behaviour.is_some()).collect()),
            _ => (&mut changed, runs),
        };
        for (versions, behaviour) in listed {
            let facts = behaviour.unwrap_or_else(|| ["–", "–", "not exported"].map(str::to_string));
            let range = ranges(&versions, &all);
            section.rows.push([call.to_string(), range].into_iter().chain(facts).collect());
        }
    }
    if changed.rows.is_empty() && names.len() > 1 {
        changed.text.push("Every call did the same with each of them.".to_string());
    }
    if moved.rows.is_empty() { [changed, Section::default()] } else { [changed, moved] }
}

/// Versions in order, as runs of one behaviour.
fn runs(versions: &BTreeMap<Version, &CallRow>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (version, row) in versions {
        let behaviour = behaviour(row);
        match runs.last_mut() {
            Some((alike, known)) if *known == behaviour => alike.push(version.clone()),
            _ => runs.push((vec![version.clone()], behaviour)),
        }
    }
    runs
}

fn behaviour(row: &CallRow) -> Behaviour {
    if let Some(unmeasured) = &row.standing.unmeasured {
        return match unmeasured.reason {
            Reason::MissingSymbol => None,
            other => Some(["–".to_string(), "–".to_string(), other.name()]),
        };
    }
    let context = row.context_on.as_ref().map_or("?", |on| if on.is_empty() { "no" } else { "yes" });
    Some([frozen(row), context.to_string(), row.status.clone().unwrap_or_else(|| "?".to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::survey::calls::fixture::{absent, row};

    fn lines(section: &Section) -> Vec<String> {
        section.rows.iter().map(|cells| cells[1..].join(" ")).collect()
    }

    fn changed(rows: &[CallRow]) -> [Vec<String>; 2] {
        let rows: Vec<&CallRow> = rows.iter().collect();
        changes(&rows).map(|section| lines(&section))
    }

    #[test]
    fn versions_that_do_alike_are_one_range_in_the_order_of_numbers() {
        let rows =
            [row("12.10", true, true), row("11.8", false, false), row("12.9", true, true), row("11.7", false, false)];
        let [changed, moved] = changed(&rows);
        assert_eq!(changed, ["11.7 to 11.8 no no cudaSuccess", "12.9 to 12.10 yes yes cudaSuccess"]);
        assert!(moved.is_empty());
    }

    #[test]
    fn a_range_ends_where_a_version_was_not_asked() {
        let other = |version| CallRow { call: "cudaFree".into(), ..row(version, true, true) };
        let rows = ["11.7", "11.8", "12.0"].map(other).into_iter();
        let rows: Vec<CallRow> =
            rows.chain([row("11.7", true, true), row("12.0", true, true), row("12.1", true, false)]).collect();
        let text = &changes(&rows.iter().collect::<Vec<_>>())[0].text;
        assert!(text[1].starts_with("0 of 2 calls were asked with each of them"), "{text:?}");
        assert_eq!(changed(&rows)[0], ["11.7, 12.0 yes yes cudaSuccess", "12.1 yes no cudaSuccess"]);
    }

    #[test]
    fn a_call_that_never_changed_is_not_listed() {
        assert!(changed(&[row("11.8", true, true), row("12.0", true, true)]).iter().all(Vec::is_empty));
    }

    #[test]
    fn a_call_that_came_and_went_is_listed_apart_unless_it_changed_too() {
        let rows =
            [absent("11.7", Reason::MissingSymbol), row("12.0", true, true), absent("13.0", Reason::MissingSymbol)];
        assert_eq!(changed(&rows), [vec![], vec!["12.0 yes yes cudaSuccess".to_string()]]);
        let rows = [absent("11.7", Reason::MissingSymbol), row("12.0", true, true), row("13.0", true, false)];
        let lines = ["11.7 – – not exported", "12.0 yes yes cudaSuccess", "13.0 yes no cudaSuccess"];
        assert_eq!(changed(&rows), [lines.map(str::to_string).to_vec(), vec![]]);
    }

    #[test]
    fn a_call_that_could_not_be_measured_has_not_gone() {
        let rows = [absent("11.7", Reason::Crashed), row("12.0", true, true)];
        assert_eq!(changed(&rows)[0], ["11.7 – – crashed", "12.0 yes yes cudaSuccess"]);
    }
}
