//! `survey calls`: what changed between libcudarts first, then what each call does.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls_calls::CallLibrary;

use super::changes::{changes, reads_mask_word};
use super::section::Section;
use super::table::time;
use super::{NamedSurvey, SurveyPage, by_reason, gpus};
use cuda_pitfalls_answers::survey::calls::{
    CallAnswer, CallRow, Recipes, latest_rows, load_recipes, newest_rows,
};
use cuda_pitfalls_answers::survey::startup::FigureRange;
use cuda_pitfalls_answers::survey::{FactRow, SectionForm};
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::text::versions::{Version, name, number};

/// Times of at least this length are shown with their spread.
const LONG_NS: i64 = 1_000_000;

/// Returns a row per call and libcudart, with the texts of its columns.
pub(super) fn rows(sources: &[NamedSurvey]) -> Vec<FactRow> {
    let Some(machine) = sources.first().map(|source| &source.survey.machine) else {
        return Vec::new();
    };
    let all = call_rows(sources);
    let rows = latest_rows(all.iter());
    let newest = newest_rows(&rows);
    let worded = rows.iter().map(|row| {
        // The facts that follow from the row of a call depend only on that row, whatever the machine.
        let mut facts = FactRow::new(*row, machine);
        let CallRow {
            library,
            libcudart_version: version,
            ..
        } = row;
        facts.set(
            "is_newest",
            newest.iter().any(|newest| std::ptr::eq(*newest, *row)),
        );
        facts.set("is_initialised_before", row.is_initialised_before());
        facts.set("function", row.function());
        facts.set(
            "from",
            version
                .as_ref()
                .map_or_else(|| library.clone(), |version| format!("{library} {version}")),
        );
        facts.set("reads", reads_mask_word(row));
        facts.set("context", context(row));
        facts.set("returned", returned(row));
        facts.set("arguments", arguments(row));
        facts.set("took", took_words(row));
        facts
    });
    worded.collect()
}

/// Returns the changes between versions of libcudart.
pub(super) fn changed(page: &SurveyPage<'_>) -> Vec<Section> {
    changes(&latest_rows(call_rows(page.sources).iter())).into()
}

/// Returns the rows of all documents, in the order in which they were begun.
fn call_rows(sources: &[NamedSurvey]) -> Vec<CallRow> {
    let mut surveys: Vec<_> = sources.iter().map(|source| &source.survey).collect();
    surveys.sort_by_key(|survey| &survey.header.started_at);
    surveys
        .into_iter()
        .flat_map(|survey| survey.rows_of())
        .collect()
}

fn returned(row: &CallRow) -> &str {
    match (&row.status, row.answer()) {
        (Some(status), _) => status,
        (None, Some(_)) if row.library == CallLibrary::Runtime.name() => "text",
        (None, Some(_)) => "",
        (None, None) => "?",
    }
}

/// Returns the problem with the arguments: refused, not checked or not supported; empty if they worked.
fn arguments(row: &CallRow) -> &'static str {
    match row.answer() {
        Some(CallAnswer::Refused) => "refused",
        Some(CallAnswer::NotInitialised) => "not checked",
        Some(CallAnswer::NotSupported) => "not supported",
        Some(CallAnswer::Succeeded) | None => "",
    }
}

fn context(row: &CallRow) -> String {
    let on = gpus(row.context_on.as_deref(), "–");
    if row.makes_context() == Some(true) {
        format!("{on} of {}", row.visible_gpus)
    } else {
        on
    }
}

/// Returns the duration of the call: the median, with the minimum and the maximum if it is long enough to matter.
fn took_words(row: &CallRow) -> String {
    let times = row
        .seen
        .iter()
        .map(|seen| i64::try_from(seen.elapsed_ns).unwrap_or(i64::MAX));
    match FigureRange::from_figures(times) {
        Some(took) if took.median >= LONG_NS => time(took),
        _ => row
            .elapsed_ns
            .map(units::format_duration)
            .unwrap_or_default(),
    }
}

type Count = fn(&[&CallRow]) -> usize;

/// Returns the number of functions of each library that were measured, and a summary of their results and effects.
pub(super) fn in_short(page: &SurveyPage<'_>, form: &SectionForm) -> Section {
    let all = call_rows(page.sources);
    let rows = latest_rows(all.iter());
    let mut by_library: BTreeMap<(&str, Option<Version>), Vec<&CallRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.standing.unmeasured.is_none()) {
        let version = row.libcudart_version.as_deref().map(number);
        let CallRow { library, .. } = row;
        by_library.entry((library, version)).or_default().push(row);
    }
    let columns: [(&str, Count); 8] = [
        ("functions", |rows| {
            rows.iter()
                .map(|row| row.function())
                .collect::<BTreeSet<_>>()
                .len()
        }),
        ("rows", |rows| rows.len()),
        ("of these succeeded", |rows| {
            answered(rows, CallAnswer::Succeeded)
        }),
        ("refused", |rows| answered(rows, CallAnswer::Refused)),
        ("arguments not checked or not supported", |rows| {
            answered(rows, CallAnswer::NotInitialised) + answered(rows, CallAnswer::NotSupported)
        }),
        ("make a context", |rows| {
            count(rows, |row| row.makes_context() == Some(true))
        }),
        ("only read the mask", |rows| {
            count(rows, |row| {
                row.reads_mask == Some(true) && row.makes_context() != Some(true)
            })
        }),
        ("do not read it", |rows| {
            count(rows, |row| row.reads_mask == Some(false))
        }),
    ];
    let lines = by_library.into_iter().map(|((library, version), rows)| {
        let name = version.map_or_else(
            || library.to_string(),
            |version| format!("{library} {}", name(&version)),
        );
        [name]
            .into_iter()
            .chain(columns.map(|(_, count)| count(&rows).to_string()))
            .collect()
    });
    let header: Vec<&str> = ["library"]
        .into_iter()
        .chain(columns.map(|(heading, _)| heading))
        .collect();
    Section {
        text: vec![form.text.clone()],
        ..Section::new(&form.title, &header, lines.collect(), &[])
    }
}

fn count(rows: &[&CallRow], is_counted: impl Fn(&CallRow) -> bool) -> usize {
    rows.iter().filter(|row| is_counted(row)).count()
}

fn answered(rows: &[&CallRow], answer: CallAnswer) -> usize {
    count(rows, |row| row.answer() == Some(answer))
}

/// Returns functions that did not succeed in any row, with any libcudart, and the known reasons.
pub(super) fn refused(page: &SurveyPage<'_>, form: &SectionForm) -> Section {
    let all = call_rows(page.sources);
    let rows = latest_rows(all.iter());
    let succeeded: BTreeSet<&str> = rows
        .iter()
        .filter(|row| row.answer() == Some(CallAnswer::Succeeded))
        .map(|row| row.function())
        .collect();
    let newest = newest_rows(&rows);
    let rows = newest
        .iter()
        .filter(|row| row.answer() == Some(CallAnswer::Refused));
    let recipes = load_recipes(1).ok();
    let rows = rows.filter(|row| !succeeded.contains(row.function()));
    let section = by_reason(
        &form.title,
        rows.map(|row| (why_refused(row, recipes.as_ref()), row.function())),
    );
    Section {
        text: vec![form.text.clone()],
        only_on_pages: form.only_on_pages,
        ..section
    }
}

/// Returns the reason why no row of a function succeeded.
fn why_refused(row: &CallRow, recipes: Option<&Recipes>) -> String {
    let said = recipes.and_then(|recipes| {
        recipes
            .why_refused(row.function())
            .or_else(|| recipes.why_left_out(row.function()))
    });
    match said {
        Some(why) => why.to_string(),
        None if row.library == CallLibrary::Driver.name() => {
            "returns its error before it checks that the driver is initialized".to_string()
        }
        None => "other arguments not measured yet".to_string(),
    }
}
