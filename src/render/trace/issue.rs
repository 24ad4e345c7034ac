//! What a trace shows, as the text of an issue, ready to paste: the program's own line, what people expect there, what
//! happened, and a reproducer of the scenario that proves it.

use super::change::{LineChange, changes};
use super::{TraceView, place};
use crate::block::{Block, Text};
use crate::issue::{
    Attached, IssueSections, MOST, arrange_sections, capitalize_word, cut_text, first_sources,
    title as title_of,
};
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Severity;

const MOST_FINDINGS: usize = 10;
const LONGEST_COMMAND: usize = 500;

/// The text, of at most [`MOST`] characters. `proofs` are the scenarios that the findings name.
pub(super) fn render_trace_issue(
    seen: &TraceView,
    proofs: &[Scenario],
    attached: &[Attached],
) -> String {
    let changes = changes(seen);
    let to_change = changes.iter().take(MOST_FINDINGS).map(|(change, _)| {
        format!(
            "{}: {} ({})",
            change.sentence(),
            change.workaround,
            change.scenario
        )
        .into()
    });
    let sections = IssueSections {
        title: title(seen, &changes),
        synopsis: vec![Block::paragraph(format!("{}.", seen.totals.join(", ")))],
        expected: vec![Block::List(expected(proofs))],
        happened: happened_blocks(seen),
        reproducer: reproducer_blocks(proofs, attached),
        versions: versions(seen),
        attached: vec![
            Block::Fold(
                "What to change in the program".to_owned(),
                vec![Block::List(to_change.collect())],
            ),
            Block::Prose(
                "The archive has the trace itself (`trace.ndjson`), its summary, the page `trace.html`, and the \
                 scenarios; `cuda-pitfalls run` measures them.",
            ),
        ],
    };
    cut_text(&arrange_sections(sections), MOST)
}

/// The first thing to change, with its line.
fn title(seen: &TraceView, changes: &[(LineChange<'_>, usize)]) -> String {
    let Some((first, _)) = changes.first() else {
        return title_of(&format!("No pitfall was found: {}", command(seen)));
    };
    let at = first
        .at
        .as_ref()
        .map(|at| format!(" ({at})"))
        .unwrap_or_default();
    title_of(&format!("{}{at}", capitalize_word(first.title)))
}

/// What people believe of what was found, as the scenarios say it, and what was measured.
fn expected(proofs: &[Scenario]) -> Vec<Text> {
    let beliefs = proofs.iter().map(|scenario| {
        let belief = if scenario.belief.is_empty() {
            "not what happened"
        } else {
            &scenario.belief
        };
        format!("{} {belief}", scenario.question).into()
    });
    let nothing = proofs.is_empty().then(|| "Nothing was expected.".into());
    beliefs.chain(nothing).collect()
}

/// What was found and where, with the way from the program's line to the call.
fn happened_blocks(seen: &TraceView) -> Vec<Block> {
    let mut blocks: Vec<Block> = seen.banners.iter().cloned().map(Block::Banner).collect();
    let mut found: Vec<Text> = Vec::new();
    for finding in seen.found(Severity::Pitfall).take(MOST_FINDINGS) {
        let memory = finding
            .bytes
            .map(|bytes| format!(" ({})", units::format_delta(bytes)))
            .unwrap_or_default();
        let says = Text::from(format!("{}{memory}", finding.says));
        let ways = finding
            .events
            .iter()
            .filter_map(|index| seen.trace.events.get(*index))
            .take(2)
            .map(|event| {
                format!(
                    "{}: {}",
                    place::since_start(seen.trace, event.t_ns),
                    place::chain(event).join(" → ")
                )
                .into()
            });
        found.push(Text::lines(std::iter::once(says).chain(ways)));
    }
    let left = seen
        .found(Severity::Pitfall)
        .count()
        .saturating_sub(MOST_FINDINGS);
    found.extend(
        (left > 0).then(|| format!("… and {left} more; the trace in the archive has them.").into()),
    );
    found.extend(found.is_empty().then(|| "Nothing was found.".into()));
    blocks.push(Block::List(found));
    let missing = seen.not_seen.join("; ");
    let missing = (!missing.is_empty()).then(|| format!("Not everything was seen: {missing}."));
    blocks.extend(missing.map(Block::paragraph));
    blocks
}

/// A program that shows the same, or the scenario that does.
fn reproducer_blocks(proofs: &[Scenario], attached: &[Attached]) -> Vec<Block> {
    if !attached.is_empty() {
        return first_sources(attached);
    }
    let named = proofs
        .iter()
        .map(|one| Text::code(format!("cuda-pitfalls run {}", one.name)).then(" asks it."));
    named.map(Block::Paragraph).collect()
}

fn command(seen: &TraceView) -> String {
    shorten_text(&seen.trace.start.command.join(" "), LONGEST_COMMAND)
}

fn versions(seen: &TraceView) -> Vec<(&'static str, String)> {
    let start = &seen.trace.start;
    let commit = start
        .commit
        .as_ref()
        .map(|commit| format!(" ({commit})"))
        .unwrap_or_default();
    let mut rows = vec![
        ("command", command(seen)),
        (
            "driver",
            place::shorten_place(start.driver_version.as_deref().unwrap_or("not known")),
        ),
    ];
    rows.extend(start.gpus.iter().map(|gpu| ("GPU", crate::words::gpu(gpu))));
    rows.push((
        "cuda-pitfalls",
        format!(
            "{}{commit}, trace of {}, on {}",
            start.version, start.started_at, start.on
        ),
    ));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    #[test]
    fn the_line_comes_first_and_what_people_believe_before_what_happened() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let seen = TraceView::new(&trace, &findings, &outcome);
        let proofs = cuda_pitfalls_core::catalogue::select_scenarios(&[
            "visibility/mask-after-cuinit".to_owned(),
        ])
        .unwrap();
        let text = render_trace_issue(&seen, &proofs, &[]);
        assert!(
            text.starts_with("# CUDA_VISIBLE_DEVICES is set after it was read (cli.py:88)\n"),
            "{text}"
        );
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no {part}:\n{text}"))
        };
        assert!(
            at("### Expected") < at("### What happened")
                && at("### Reproducer") < at("### Versions")
        );
        assert!(text.contains("torch.cuda.is\\_available"), "{text}");
    }

    #[test]
    fn a_trace_in_which_nothing_was_found_says_so() {
        let trace = fixture::quiet();
        let text = render_trace_issue(&TraceView::bare(&trace), &[], &[]);
        assert!(
            text.starts_with("# No pitfall was found: ") && text.contains("Nothing was expected."),
            "{text}"
        );
    }

    #[test]
    fn hostile_text_stays_text() {
        let (findings, outcome) = fixture::hostile_findings();
        let text = render_trace_issue(
            &TraceView::new(&fixture::hostile(), &findings, &outcome),
            &[],
            &[],
        );
        let outside: String = text.split("```").step_by(2).collect();
        assert!(
            !outside.contains("<img") && !outside.contains("<script"),
            "{outside}"
        );
    }
}
