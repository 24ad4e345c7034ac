//! `survey needs`: what is needed, and the effect of each denial.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::section::Section;
use super::{NamedSurvey, SurveyPage, rows_with};
use cuda_pitfalls_answers::survey::needs::{Least, NeedRow, NeedsMoment, NeedsProgram, least};
use cuda_pitfalls_answers::survey::{FactRow, KindRow, SectionForm};
use cuda_pitfalls_core::text::counts::listed;

/// Returns the rows, each with its effect, and those of the controls with the accesses of the program. The call that
/// fails identifies the program.
pub(super) fn rows(sources: &[NamedSurvey]) -> Vec<FactRow> {
    rows_with(sources, |row: &NeedRow, rows, facts| {
        let is_usual = row
            .control(rows)
            .is_some_and(|control| !row.differs_from(control));
        facts.set("effect", effect(row, rows));
        facts.set(
            "is_harmless",
            row.error.is_some() && row.is_conclusive() && row.met == Some(true) && is_usual,
        );
        facts.set("is_alone", row.is_alone());
        facts.set("to", row.program.name());
        let asked = row.asked.iter().map(|asked| {
            let files = asked.files.iter().filter(|(path, _)| !path.contains(".so")).map(|(path, used)| {
                let how = if used.written { " (written)" } else { "" };
                format!("{path}{}{how}", if used.exists { "" } else { " (missing)" })
            });
            let calls = asked.system_calls.iter().map(|(call, times)| format!("{call} {times}"));
            json!({"during": asked.during, "files": files.collect::<Vec<_>>().join("; "), "calls": listed(calls, "")})
        });
        facts.set("record", asked.collect::<Value>());
    })
}

/// Returns the difference between a row and its control; `None` for a row without effect.
fn effect(row: &NeedRow, rows: &[NeedRow]) -> Option<String> {
    let control = row.control(rows)?;
    if row.is_control() || !row.is_conclusive() || !row.differs_from(control) {
        return None;
    }
    if let Some(died) = &row.died {
        if row.moment == NeedsMoment::Spawned && died.by == "child" {
            return Some("the fresh process does not start".to_string());
        }
        let at = died
            .at
            .as_ref()
            .map(|at| format!(" in {at}"))
            .unwrap_or_default();
        return Some(format!("{}{at}", died.by));
    }
    let (usual, seen) = (
        control.gpus.clone().unwrap_or_default(),
        row.gpus.clone().unwrap_or_default(),
    );
    let failure = row
        .first_failure(control)
        .map(|failure| format!("{}: {}", failure.call, failure.status));
    // A missing GPU makes its ordinal fail too; both are the same effect, reported once.
    if row.is_counted_anew(control) {
        let gone: Vec<String> = usual
            .iter()
            .filter(|gpu| !seen.contains(gpu))
            .map(|gpu| format!("GPU {gpu}"))
            .collect();
        let first = seen.first().filter(|first| usual.first() != Some(*first));
        let first = first
            .map(|gpu| format!("; device 0 is GPU {gpu}"))
            .unwrap_or_default();
        return Some(format!("{} not counted{first}", gone.join(" and ")));
    }
    failure.or_else(|| Some("no GPU is visible".to_string()))
}

/// Returns the needs of each program, and whether it works with everything else denied.
pub(super) fn least_of_each(page: &SurveyPage<'_>, form: &SectionForm) -> Vec<Section> {
    page.sources
        .iter()
        .map(|source| least_table(page.title(form), &source.survey.rows_of()))
        .collect()
}

fn least_table(title: String, rows: &[NeedRow]) -> Section {
    let asked = NeedsProgram::ALL.into_iter();
    let asked = asked.filter(|program| {
        rows.iter()
            .any(|row| row.program == *program && row.error.is_some())
    });
    let header = [
        "program",
        "needs",
        "may be denied",
        "denied together",
        "works with them denied",
    ];
    Section::new(
        title,
        &header,
        asked.map(|program| least_line(rows, program)).collect(),
        &[],
    )
}

/// Returns the needs of one program, and which of its accesses may be denied.
fn least_line(rows: &[NeedRow], program: NeedsProgram) -> Vec<String> {
    let least = least(rows, program);
    let Least {
        needed,
        refusable,
        one_of,
        confirmed,
        doubtful,
        ..
    } = &least;
    let only: Vec<String> = rows
        .iter()
        .filter(|row| (row.program, row.moment) == (program, NeedsMoment::Init))
        .filter_map(|row| {
            Some((
                row.refused.as_deref()?,
                row.error.as_deref()?,
                effect(row, rows)?,
            ))
        })
        .filter(|(refused, ..)| !needed.contains(*refused) && refusable.contains_key(*refused))
        .map(|(refused, error, _)| format!("{refused}, except by {error}"))
        .collect();
    let verified = match least.is_enough() {
        None => "not asked".to_string(),
        Some(false) => "no: something else is needed".to_string(),
        Some(true) => format!(
            "yes{}: {} of {} break it if they are also denied{}",
            if one_of.is_empty() {
                String::new()
            } else {
                format!(" if one of these is allowed: {}", list(one_of))
            },
            confirmed.len(),
            needed.len(),
            if doubtful.is_empty() {
                String::new()
            } else {
                format!("; not {}", list(doubtful))
            }
        ),
    };
    let needed = if program.is_framework() {
        format!("in addition to the driver: {}", list(needed))
    } else {
        list(needed)
    };
    vec![
        program.name(),
        needed,
        only.join("; "),
        refusable.len().to_string(),
        verified,
    ]
}

fn list(all: &BTreeSet<String>) -> String {
    listed(all, "")
}
