//! `survey errors`: how frameworks react to a driver error.

use serde_json::{Value, json};

use super::section::Section;
use super::{NamedSurvey, SurveyPage, rows_with};
use cuda_pitfalls_answers::survey::KindRow;
use cuda_pitfalls_answers::survey::errors::{ErrorEffect, ErrorRow};
use cuda_pitfalls_answers::survey::{FactRow, SectionForm};
use cuda_pitfalls_core::text::counts::{group_by_key, listed};
use cuda_pitfalls_core::text::escape::shorten_text;

/// A message is cut to this many bytes.
const LONGEST: usize = 240;

pub(super) fn rows(sources: &[NamedSurvey]) -> Vec<FactRow> {
    rows_with(sources, |row: &ErrorRow, rows, facts| {
        let mut code = Vec::new();
        for (name, value) in &row.env {
            code.push(format!("{name}={value}"));
        }
        code.extend(row.before.iter().cloned());
        code.push(row.ask.trim().to_string());
        facts.set("code", code.join("\n"));
        facts.set("usual", row.value.as_deref());
        let unmeasured = row.standing.unmeasured.as_ref();
        facts.set("why", unmeasured.map(|why| why.detail.as_str()));
        set_effect(row, row.effect(rows), facts);
        if !row.is_control() {
            set_status(row, facts);
        }
    })
}

/// Sets what the line did, and the message that it raised.
fn set_effect(row: &ErrorRow, effect: Option<ErrorEffect>, facts: &mut FactRow) {
    let word = match (effect, &row.raised) {
        (None, _) => None,
        (Some(ErrorEffect::Nothing), _) => Some("works"),
        (Some(ErrorEffect::Silent), _) => Some("silent"),
        (Some(ErrorEffect::Raises), None) => Some(""),
        (Some(ErrorEffect::Raises), Some(raised)) => {
            let message = format!("{}: {}", raised.kind, raised.message);
            facts.set("message", shorten_text(&message, LONGEST));
            Some(raised.kind.as_str())
        }
        (Some(ErrorEffect::Dies), _) => Some(row.left.as_deref().unwrap_or_default()),
    };
    facts.set("effect", word);
}

/// Sets the warnings and the status that the line's call returned.
fn set_status(row: &ErrorRow, facts: &mut FactRow) {
    let warned: Vec<String> = row
        .warned
        .iter()
        .map(|warning| shorten_text(warning, LONGEST))
        .collect();
    facts.set("warning", json!(warned));
    let Some(returned) = &row.returned else {
        facts.set("at", "without an error");
        return;
    };
    let (code, status) = (returned.code, &returned.status);
    facts.set("library", returned.library().name());
    facts.set("at", format!("{} {code}", returned.place));
    if status.contains(' ') {
        // The text for an unknown status contains its number.
        facts.set("status", status.clone());
    } else {
        facts.set("status", format!("{code} {status}"));
    }
}

/// Returns each text once, with the lines that print it and the locations.
pub(super) fn text_sections(page: &SurveyPage<'_>, form: &SectionForm) -> Vec<Section> {
    let mut said = Vec::new();
    for row in page.rows.iter().filter(|row| form.has(row)) {
        for fact in form.columns.iter().map(|name| row.fact(name)) {
            let texts = fact
                .as_array()
                .map_or(std::slice::from_ref(fact), Vec::as_slice);
            let by = ["line", "at"].map(|name| row.fact(name).as_str().unwrap_or_default());
            said.extend(
                texts
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|text| (text, by)),
            );
        }
    }
    let lines = group_by_key(said).into_iter().map(|(text, said)| {
        let by_line = group_by_key(said.into_iter().map(|[line, at]| (line, at))).into_iter();
        let by_line: Vec<String> = by_line
            .map(|(line, at)| format!("{line} ({})", listed(at, "")))
            .collect();
        vec![text.to_string(), by_line.join("; ")]
    });
    let what = form
        .columns
        .iter()
        .map(String::as_str)
        .chain(["reported by (location and status)"]);
    vec![Section::new(
        page.title(form),
        &what.collect::<Vec<_>>(),
        lines.collect(),
        &[0],
    )]
}
