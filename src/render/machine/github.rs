//! Annotations for a GitHub Actions log: `::error title=…::…`, one line each; only this program writes the commands.
//!
//! GitHub shows the first ten of each level, so a summary comes first, equal ones are merged, and expected results get
//! no line.

use super::{Findings, LIMIT, Level, MachineFinding};
use cuda_pitfalls_core::text::escape::{github_message, github_property, shorten_text};

/// Returns the findings that matter, in the order of their rank.
pub(crate) fn write_annotations(findings: &Findings) -> String {
    let mut sorted: Vec<&MachineFinding> = findings.list.iter().collect();
    sorted.sort_by_key(|finding| finding.rank);
    let mut out = String::new();
    for finding in sorted {
        if let Some(level) = finding.level {
            out += &format_annotation(level, finding);
        }
    }
    out
}

/// Returns one command. A newline would end it, so the message's lines are joined by its escape sequence.
fn format_annotation(level: Level, finding: &MachineFinding) -> String {
    let level = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "notice",
    };
    let mut lines: Vec<String> = Vec::new();
    for line in &finding.lines {
        if !line.is_empty() {
            lines.push(github_message(line));
        }
    }
    let mut properties: Vec<String> = Vec::new();
    if let Some(place) = &finding.place {
        lines.extend(place.remark().map(github_message));
        properties.push(format!("file={}", github_property(&place.file)));
        properties.extend(place.line.map(|line| format!("line={line}")));
    }
    let title = github_property(&shorten_text(&finding.title, LIMIT / 8));
    properties.push(format!("title={title}"));
    format!(
        "::{level} {}::{}\n",
        properties.join(","),
        shorten_text(&lines.join("%0A"), LIMIT)
    )
}
