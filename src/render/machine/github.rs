//! Annotations for a GitHub Actions log: `::error title=…::…`, one line each, every one a command of ours.
//!
//! GitHub shows the first ten of each level, so a summary comes first, equal ones are one, and what is as expected gets
//! no line of its own.

use super::{BESIDE, LIMIT, UserLine};
use cuda_pitfalls_core::text::escape::{github_message, github_property, shorten_text};

/// One command. A newline would end it, so the message's lines are joined by what stands for one.
pub(crate) fn format_annotation(
    level: &str,
    place: Option<UserLine>,
    title: &str,
    lines: &[String],
) -> String {
    let beside = place
        .as_ref()
        .is_some_and(|place| place.is_beside)
        .then(|| BESIDE.to_owned());
    let lines: Vec<String> = lines
        .iter()
        .chain(&beside)
        .filter(|line| !line.is_empty())
        .map(|line| github_message(line))
        .collect();
    let mut properties: Vec<String> = Vec::new();
    if let Some(UserLine { file, line, .. }) = place {
        properties.push(format!("file={}", github_property(&file)));
        properties.extend(line.map(|line| format!("line={line}")));
    }
    properties.push(format!(
        "title={}",
        github_property(&shorten_text(title, LIMIT / 8))
    ));
    format!(
        "::{level} {}::{}\n",
        properties.join(","),
        shorten_text(&lines.join("%0A"), LIMIT)
    )
}
