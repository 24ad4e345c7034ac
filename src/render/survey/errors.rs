//! `survey errors`: what frameworks make of an error of the driver.

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
        let env = row
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let code = env
            .chain(row.before.iter().cloned())
            .chain([row.ask.trim().to_string()]);
        facts.set("code", code.collect::<Vec<_>>().join("\n"));
        facts.set("usual", row.value.as_deref());
        facts.set(
            "why",
            row.standing
                .unmeasured
                .as_ref()
                .map(|why| why.detail.as_str()),
        );
        let effect = row.effect(rows);
        let raised = row
            .raised
            .as_ref()
            .map(|raised| (&raised.kind, format!("{}: {}", raised.kind, raised.message)));
        if let (Some((_, message)), Some(ErrorEffect::Raises)) = (&raised, effect) {
            facts.set("message", shorten_text(message, LONGEST));
        }
        facts.set(
            "effect",
            effect.map(|effect| match effect {
                ErrorEffect::Nothing => "works",
                ErrorEffect::Silent => "silent",
                ErrorEffect::Raises => raised.as_ref().map_or("", |(kind, _)| kind.as_str()),
                ErrorEffect::Dies => row.left.as_deref().unwrap_or_default(),
            }),
        );
        if row.is_control() {
            return;
        }
        let warned: Vec<String> = row
            .warned
            .iter()
            .map(|warning| shorten_text(warning, LONGEST))
            .collect();
        facts.set("warning", json!(warned));
        facts.set("at", "without an error");
        if let Some(returned) = &row.returned {
            let (code, status) = (returned.code, &returned.status);
            facts.set("library", returned.library().name());
            facts.set("at", format!("{} {code}", returned.place));
            // What is no status has its number in its words.
            facts.set(
                "status",
                if status.contains(' ') {
                    status.clone()
                } else {
                    format!("{code} {status}")
                },
            );
        }
    })
}

/// Each text once, with the lines that say it and where they do.
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
        .chain(["said by (place and status)"]);
    vec![Section::new(
        page.title(form),
        &what.collect::<Vec<_>>(),
        lines.collect(),
        &[0],
    )]
}
