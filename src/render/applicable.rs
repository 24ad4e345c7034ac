//! The questions that do not apply to a machine, on one line.

use cuda_pitfalls_core::report::ReportView;

use cuda_pitfalls_core::text::counts::tally_items;

/// Returns the questions that this machine cannot answer, by need: `not applicable here: 124 (123 need 2 GPUs, 1 needs
/// root)`.
pub fn report(report: &ReportView<'_>) -> Option<String> {
    let left_out = report
        .scenarios
        .iter()
        .filter(|scenario| scenario.is_not_applicable());
    line(left_out.map(|scenario| {
        match (&scenario.lacks, scenario.verdict.reason) {
            (Some(lacks), _) => (*lacks).to_owned(),
            // Reports of older versions name the reason only.
            (None, reason) => reason
                .map(|reason| reason.name().replace('_', " "))
                .unwrap_or_default(),
        }
    }))
}

/// Returns notes on the questions that did not run: those that do not apply, and those that were selected by name and
/// skipped.
pub fn not_run_notes(report: &ReportView<'_>) -> Vec<String> {
    let mut notes: Vec<String> = self::report(report).into_iter().collect();
    let missed = report
        .scenarios
        .iter()
        .filter(|scenario| scenario.verdict.lacks_a_need() && scenario.asked_by_name);
    let missed: Vec<String> = missed
        .map(|scenario| match &scenario.lacks {
            Some(lacks) => format!("{} (needs {lacks})", scenario.name),
            None => scenario.name.to_owned(),
        })
        .collect();
    if !missed.is_empty() {
        notes.push(format!(
            "selected by name but skipped: {}",
            missed.join(", ")
        ));
    }
    notes.extend(
        report
            .run
            .allow_skip
            .as_ref()
            .map(|reason| format!("skipping is allowed: {reason}")),
    );
    notes
}

/// Returns the line for a list of missing needs, one entry for each question.
pub fn line(lacking: impl IntoIterator<Item = String>) -> Option<String> {
    let mut groups = tally_items(lacking);
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total: usize = groups.iter().map(|(_, count)| count).sum();
    let mut words: Vec<String> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|(lacks, count)| {
            format!(
                "{count} need{} {}",
                if *count == 1 { "s" } else { "" },
                lacks
            )
        })
        .collect();
    let others: usize = groups
        .iter()
        .skip(MOST_GROUPS)
        .map(|(_, count)| count)
        .sum();
    if others > 0 {
        words.push(format!(
            "{others} need{} something else",
            if others == 1 { "s" } else { "" }
        ));
    }
    (total > 0).then(|| format!("not applicable here: {total} ({})", words.join(", ")))
}

/// Maximum number of groups that are listed on the line.
const MOST_GROUPS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn groups_are_counted_and_the_largest_comes_first() {
        let lacking = ["root", "2 GPUs", "2 GPUs"].map(str::to_string);
        assert_eq!(
            line(lacking).unwrap(),
            "not applicable here: 3 (2 need 2 GPUs, 1 needs root)"
        );
        assert_eq!(line([]), None);
        let many = (0..9).map(|n| format!("thing {n}"));
        assert!(
            line(many)
                .unwrap()
                .ends_with("1 needs thing 4, 4 need something else)")
        );
    }

    #[test]
    fn what_was_asked_for_by_name_is_not_in_the_line() {
        let mut stored = fixture::report();
        assert_eq!(
            super::report(&stored.view()).unwrap(),
            "not applicable here: 1 (1 needs too few gpus)"
        );
        stored.scenarios[3].lacks = Some("4 GPUs".into());
        assert_eq!(
            super::report(&stored.view()).unwrap(),
            "not applicable here: 1 (1 needs 4 GPUs)"
        );
        stored.scenarios[3].asked_by_name = true;
        assert_eq!(super::report(&stored.view()), None);
    }
}
