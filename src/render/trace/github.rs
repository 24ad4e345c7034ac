//! A trace as annotations of a GitHub Actions log, at the user's own file and line. GitHub shows the first ten of each
//! level, so equal ones are one.

use std::collections::HashSet;

use super::file::path_of;
use super::junit::{own_place, where_it_was};
use super::place::UserLine;
use super::{TraceView, alike, totals, unseen};
use cuda_pitfalls_core::text::counts::grouped;
use cuda_pitfalls_core::text::escape::{github_message, github_property, shorten};
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};

const MOST: usize = 50;
/// Messages are cut to this many bytes.
const LIMIT: usize = 4096;

/// The lines, each a command of ours. GitHub knows files by their paths in the repository, which is `root`.
pub(super) fn lines(seen: &TraceView, root: &str) -> String {
    let own_place = |event: Option<usize>| {
        let place = own_place(seen, event)?;
        // Code that was given to Python as text has no file.
        let is_text = place.file.starts_with('<');
        let file = if is_text { place.file } else { path_of(seen.trace, root, &place.file) };
        Some(UserLine { file, line: place.line })
    };
    let mut out = String::new();
    for banner in unseen::banners(seen.trace) {
        out.push_str(&annotation("warning", None, "cuda-pitfalls", &[banner]));
    }
    let is_kept = seen.violations.is_empty() && seen.undecided.is_empty();
    let level = match (is_kept, seen.found(Severity::Pitfall).next().is_none()) {
        (false, _) => "error",
        (true, false) => "warning",
        (true, true) => "notice",
    };
    let totals = totals::parts(seen).join(", ");
    out.push_str(&annotation(level, None, "cuda-pitfalls trace", &[totals]));
    let violations = seen.violations.iter().map(|violation| {
        let place = own_place(violation.event);
        ((violation.forbidden.clone(), violation.says.clone(), place), violation.event)
    });
    for ((forbidden, says, place), events) in grouped(violations).into_iter().take(MOST) {
        let event = events.first().copied().flatten();
        let title = format!("forbidden: {forbidden}");
        let about = seen.findings.iter().find(|it| it.says == says && it.events.first().copied() == event);
        let mut lines = vec![says, where_it_was(seen, event)];
        lines.extend(about.into_iter().flat_map(advice));
        lines.push(times(events.len()));
        out.push_str(&annotation("error", place, &title, &lines));
    }
    for undecided in seen.undecided.iter().take(MOST) {
        out.push_str(&annotation("error", None, "cuda-pitfalls: undecided", std::slice::from_ref(undecided)));
    }
    // What was forbidden in the same words is told as that.
    let forbidden: HashSet<(&str, Option<usize>)> =
        seen.violations.iter().map(|violation| (violation.says.as_str(), violation.event)).collect();
    let others = seen.findings.iter().filter(|it| !forbidden.contains(&(&it.says, it.events.first().copied())));
    let findings = others.map(|finding| {
        let event = finding.events.first().copied();
        ((alike(finding), own_place(event)), (finding, event))
    });
    for ((_, place), all) in grouped(findings).into_iter().take(MOST) {
        let Some((finding, event)) = all.first() else { continue };
        let [workaround, scenario] = advice(finding);
        let lines = [finding.says.clone(), where_it_was(seen, *event), workaround, scenario, times(all.len())];
        let level = if finding.severity == Severity::Pitfall { "warning" } else { "notice" };
        out.push_str(&annotation(level, place, &finding.title, &lines));
    }
    let missing = unseen::unseen(&seen.history);
    if !missing.is_empty() {
        out.push_str(&annotation("notice", None, "cuda-pitfalls: not seen", &missing));
    }
    out
}

fn advice(finding: &Finding) -> [String; 2] {
    [format!("workaround: {}", finding.workaround), format!("scenario: {}", finding.scenario)]
}

fn times(times: usize) -> String {
    if times > 1 { format!("{times} times") } else { String::new() }
}

/// One command. A newline would end it, so the message's lines are joined by what stands for one.
fn annotation(level: &str, place: Option<UserLine>, title: &str, lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().filter(|line| !line.is_empty()).map(|line| github_message(line)).collect();
    let mut properties: Vec<String> = Vec::new();
    if let Some(UserLine { file, line }) = place {
        properties.push(format!("file={}", github_property(&file)));
        properties.extend(line.map(|line| format!("line={line}")));
    }
    properties.push(format!("title={}", github_property(&shorten(title, LIMIT / 8))));
    format!("::{level} {}::{}\n", properties.join(","), shorten(&lines.join("%0A"), LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    const ROOT: &str = "/home/me/project";

    #[test]
    fn files_are_relative_to_the_repository() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let shown = lines(&TraceView::new(&trace, &findings, &outcome), "/home/me");
        assert!(shown.contains("\n::error file=project/train.py,line=52,"), "{shown}");
    }

    #[test]
    fn a_violation_is_an_error_and_a_pitfall_a_warning_at_the_users_line() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let shown = lines(&TraceView::new(&trace, &findings, &outcome), ROOT);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("::error title=cuda-pitfalls trace::2 pitfalls, 1 violation"), "{shown}");
        assert!(lines[1].starts_with(
            "::error file=train.py,line=52,title=forbidden%3A context%3Agpu0::a context on GPU 0%0A2.40 s, pid 4711"
        ));
        assert!(
            lines[2].starts_with("::warning file=cli.py,line=88,title=CUDA_VISIBLE_DEVICES is set after"),
            "{shown}"
        );
        assert!(lines[3].starts_with("::warning file=train.py,line=52,title=") && lines.len() == 4, "{shown}");
    }

    #[test]
    fn what_is_forbidden_in_the_words_of_a_pitfall_is_told_once() {
        let trace = fixture::trace();
        let (findings, mut outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        outcome.violations[0].says.clone_from(&findings[0].says);
        outcome.violations[0].event = findings[0].events.first().copied();
        let shown = lines(&TraceView::new(&trace, &findings, &outcome), ROOT);
        assert_eq!(shown.matches(&findings[0].says).count(), 1, "{shown}");
        assert!(shown.lines().any(|line| line.starts_with("::error file") && line.contains("workaround: ")), "{shown}");
    }
}
