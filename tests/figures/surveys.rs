//! How many rows and functions the surveys have, and what they show.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::survey::calls::{CallAnswer, CallRow};
use cuda_pitfalls::survey::document::SurveyDocument;
use cuda_pitfalls::survey::python::INSTRUMENT;
use serde_json::Value;

use super::{Page, document};
use crate::common::committed_documents;

/// The first survey with libcudart 13.0 and two visible GPUs, less what was not exported: each
/// function with the plainest arguments.
fn plain() -> Vec<CallRow> {
    measured("survey-calls-h200-x2")
}

/// What was refused or left out then, asked again in the same way with other arguments.
fn again() -> Vec<CallRow> {
    measured("survey-calls-h200-x2/again")
}

/// Both, a row that was asked twice as it was asked last.
fn first() -> Vec<CallRow> {
    let rows: BTreeMap<String, CallRow> =
        plain().into_iter().chain(again()).map(|row| (row.call.clone(), row)).collect();
    rows.into_values().collect()
}

fn measured(folder: &str) -> Vec<CallRow> {
    let rows = document(&format!("{folder}/survey-calls.json"))["rows"].take();
    let rows: Vec<CallRow> = serde_json::from_value(rows).expect("rows");
    rows.into_iter().filter(|row| row.standing.unmeasured.is_none()).collect()
}

fn of<'a>(rows: &'a [CallRow], library: &str) -> Vec<&'a CallRow> {
    rows.iter().filter(|row| row.library == library).collect()
}

fn functions(rows: &[&CallRow]) -> usize {
    rows.iter().map(|row| row.function()).collect::<BTreeSet<_>>().len()
}

fn has_context(row: &CallRow) -> bool {
    row.context_on.as_ref().is_some_and(|on| !on.is_empty())
}

/// Every row of every committed survey of calls, those of later surveys last.
fn all() -> Vec<CallRow> {
    let mut documents: Vec<SurveyDocument<CallRow>> = Vec::new();
    for (name, _) in committed_documents("survey-calls.json") {
        if name.starts_with("survey-calls-h200") {
            let document = document(&format!("{name}/survey-calls.json"));
            documents.push(serde_json::from_value(document).expect("a survey of calls"));
        }
    }
    documents.sort_by(|one, other| one.survey.started_at.cmp(&other.survey.started_at));
    documents.into_iter().flat_map(|document| document.rows).collect()
}

#[test]
fn rows_of_libcudart_are_told_from_functions() {
    let rows = first();
    let runtime = of(&rows, "libcudart");
    let count = |is: &dyn Fn(&CallRow) -> bool| runtime.iter().filter(|row| is(row)).count();
    let context = count(&has_context);
    let only = count(&|row| row.reads_mask == Some(true) && !has_context(row));
    let after = count(&|row| row.is_initialised_before() && !has_context(row));
    let (asked, all) = (functions(&runtime), runtime.len());
    Page::open("docs/results.md")
        .says(format!("For libcudart 13.0 it asked {asked} functions in {all} rows"))
        .says(format!("{context} create a context, {only} only initialise the driver and so read the mask, one does"))
        .says(format!("{after} create no context where the driver was initialised before"));
    Page::open("docs/findings.md")
        .says(format!("{asked} functions of libcudart 13.0 have {all} rows"))
        .says(format!("Of {asked} functions of libcudart 13.0, all but `cudaRuntimeGetVersion` do"))
        .says(format!("Of all {all} rows of libcudart 13.0 in [calls](surveys/calls.md) {context} do"));
    let free: Vec<&str> =
        runtime.iter().filter(|row| row.reads_mask == Some(false)).map(|row| row.function()).collect();
    assert_eq!(free, ["cudaRuntimeGetVersion"]);
    assert_eq!(context + only + after + free.len(), all);
}

#[test]
fn what_a_refused_call_did_to_contexts_the_call_that_works_does_too() {
    let (plain, again) = (plain(), again());
    let refused: BTreeMap<&str, &CallRow> = of(&plain, "libcudart")
        .into_iter()
        .filter(|row| row.call == row.function() && row.answer() == Some(CallAnswer::Refused))
        .map(|row| (row.function(), row))
        .collect();
    let pairs: Vec<(&CallRow, &CallRow)> =
        again.iter().filter_map(|row| refused.get(row.function()).map(|plain| (*plain, row))).collect();
    let succeeded = pairs.iter().filter(|(_, row)| row.answer() == Some(CallAnswer::Succeeded));
    let (alike, other): (Vec<_>, Vec<_>) = succeeded.partition(|(plain, row)| plain.context_on == row.context_on);
    let other: Vec<&str> = other.into_iter().map(|(_, row)| row.function()).collect();
    assert_eq!(other, ["cudaDeviceEnablePeerAccess"]);
    Page::open("docs/results.md").says(format!(
        "{} were asked again with arguments that work, and {} of them",
        alike.len() + 1,
        alike.len()
    ));
    Page::open("docs/findings.md").says(format!(
        "Of {} functions of libcudart 13.0 that refused the plainest arguments, {} succeed with others, and {} of these",
        pairs.len(),
        alike.len() + 1,
        alike.len()
    ));
    let graphs = again.iter().filter(|row| row.call.starts_with("cudaGraph") && has_context(row)).count();
    Page::open("docs/findings.md").says(format!("each of {graphs} calls of libcudart 13.0 that add to it"));
}

/// Texts and profilers, with each libcudart.
#[test]
fn texts_and_profilers_do_the_same_with_each_libcudart() {
    let rows = all();
    for (call, context) in [
        ("cudaGetErrorString", false),
        ("cudaGetErrorName", false),
        ("cudaProfilerStart", true),
        ("cudaProfilerStop", false),
    ] {
        let rows: Vec<&CallRow> = rows.iter().filter(|row| row.call == call).collect();
        let versions: BTreeSet<&str> = rows.iter().filter_map(|row| row.libcudart_version.as_deref()).collect();
        assert_eq!(versions.len(), 17, "{call}");
        assert!(rows.iter().all(|row| row.reads_mask == Some(true)), "{call}");
        assert!(rows.iter().all(|row| has_context(row) == context), "{call}");
    }
}

#[test]
fn of_libcuda_one_call_freezes_and_some_look_at_their_arguments_first() {
    let rows = first();
    let driver = of(&rows, "libcuda");
    let refused = driver.iter().filter(|row| row.answer() == Some(CallAnswer::Refused)).count();
    let freeze: Vec<&str> =
        driver.iter().filter(|row| row.reads_mask == Some(true)).map(|row| row.function()).collect();
    assert_eq!(freeze, ["cuInit"]);
    Page::open("docs/results.md").says(format!("Of {} rows of libcuda only `cuInit` reads it", driver.len()));
    Page::open("docs/findings.md").says(format!(
        "Of {} functions of libcuda only `cuInit` does. {refused} rows of the others reject their arguments",
        functions(&driver)
    ));
}

#[test]
fn rows_that_were_measured_are_counted() {
    let all = |folder: &str| document(&format!("{folder}/survey-calls.json"))["rows"].as_array().expect("rows").len();
    let (plain, first) = (plain().len(), all("survey-calls-h200-x2"));
    let (again, second) = (again().len(), all("survey-calls-h200-x2/again"));
    Page::open("docs/findings.md")
        .says(format!(
            "{plain} rows of first calls on 2 GPUs with libcudart 13.0 ({} more are of calls that are not exported there)",
            first - plain
        ))
        .says(format!("{second} more rows of calls that were refused"))
        .says(format!("({again} of them are exported by 13.0)"));
}

/// Only `cudaRuntimeGetVersion` leaves the mask free, whatever the libcudart (claim S0-6).
#[test]
fn no_other_call_of_libcudart_leaves_the_mask_free() {
    let free: BTreeSet<(String, bool)> = all()
        .iter()
        .filter(|row| row.library == "libcudart" && row.reads_mask == Some(false))
        .map(|row| (row.call.clone(), row.libcudart_version.as_deref().is_some_and(|version| version < "12")))
        .collect();
    assert_eq!(free, BTreeSet::from([("cudaRuntimeGetVersion".to_string(), false)]));
}

#[test]
fn functions_that_differ_between_versions_are_counted() {
    type Behaviour<'a> = (Option<bool>, bool, Option<&'a str>);
    let rows = all();
    let plain = rows.iter().filter(|row| row.library == "libcudart" && row.before.is_empty());
    let mut latest: BTreeMap<(&str, &str), (u32, &CallRow)> = BTreeMap::new();
    for row in plain.filter(|row| row.standing.unmeasured.is_none()) {
        let version = row.libcudart_version.as_deref().expect("a version");
        let known = latest.get(&(row.call.as_str(), version)).map_or(0, |(visible, _)| *visible);
        if known <= row.visible_gpus {
            latest.insert((&row.call, version), (row.visible_gpus, row));
        }
    }
    let mut behaviours: BTreeMap<&str, BTreeSet<Behaviour<'_>>> = BTreeMap::new();
    for (_, row) in latest.values() {
        let behaviour = (row.reads_mask, has_context(row), row.status.as_deref());
        behaviours.entry(&row.call).or_default().insert(behaviour);
    }
    let in_13 = |call: &str| latest.contains_key(&(call, "13.0"));
    let differ = behaviours.iter().filter(|(call, seen)| seen.len() > 1 && in_13(call));
    let differ: BTreeSet<&str> = differ.map(|(call, _)| call.split('-').next().unwrap_or(call)).collect();
    let words = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    println!("{differ:?}");
    Page::open("docs/results.md")
        .says(format!("{} of these functions behave differently in some", words[differ.len()]));
}

#[test]
fn masks_and_variables_are_counted() {
    let masks = document("survey-mask-h200-x2/survey-mask.json")["rows"].take();
    let masks: Vec<Value> = serde_json::from_value(masks).expect("rows");
    let generated = masks.iter().filter(|row| row["group"] == "Generated").count();
    let forms = masks.len() - generated;
    let unexpected = masks.iter().filter(|row| row["as_predicted"] != true).count();
    assert_eq!(unexpected, 0, "and none was read otherwise");
    Page::open("docs/results.md").says(format!("of {} masks, {generated} of them generated, none", masks.len()));
    Page::open("docs/findings.md").says(format!("{forms} forms of the mask, and {generated} generated masks"));
    Page::open("docs/surveys/README.md")
        .says(format!("{forms} forms three times and {generated} generated masks once"));
    let variables = document("survey-env-h200-x2/survey-env.json")["rows"].take();
    let variables: Vec<Value> = serde_json::from_value(variables).expect("rows");
    assert_eq!(variables.len(), 20);
    let effective = variables.iter().filter(|row| row["has_effect"] == true).count();
    let at_init = variables.iter().filter(|row| row["read_at"] == "cuInit").count();
    Page::open("docs/results.md").says(format!("{at_init} of the {effective} that take effect are read at `cuInit`"));
    Page::open("docs/findings.md")
        .says(format!("Of {effective} variables that take effect, {at_init} are read at `cuInit`"))
        .says(format!("{} environment variables", variables.len()));
}

#[test]
fn lines_of_python_are_counted() {
    let rows = document("survey-python-h200-x4/survey-python.json")["rows"].take();
    let rows: Vec<Value> = rows.as_array().expect("rows").clone();
    let asked: Vec<&Value> = rows.iter().filter(|row| row["framework"] != INSTRUMENT).collect();
    assert!(asked.iter().all(|row| row["unmeasured"].is_null() && row["attempts"] == 3), "each was asked three times");
    let reads = |row: &Value| row["reads_mask"] == true;
    let makes = |row: &Value| row["context_on"].as_array().is_some_and(|on| !on.is_empty());
    let count = |is: &dyn Fn(&Value) -> bool| asked.iter().filter(|row| is(row)).count();
    let neither = count(&|row| !reads(row) && !makes(row));
    Page::open("docs/results.md")
        .says(format!("asks {} lines, each in a fresh interpreter", asked.len()))
        .says(format!("{} of them read the mask", count(&reads)))
        .says(format!("{} make a context, and {neither} do neither", count(&makes)));
    let imports = asked.iter().filter(|row| row["ask"].as_str().is_some_and(|ask| ask.starts_with("import ")));
    let freeze: Vec<&Value> = imports.filter(|row| reads(row) || makes(row)).map(|row| &row["id"]).collect();
    assert_eq!(freeze, ["import torch, KINETO_USE_DAEMON=1"], "no import does, except");
}

#[test]
fn calls_that_want_a_newer_driver_are_counted() {
    let refused = |row: &CallRow| row.status.as_deref() == Some("cudaErrorCallRequiresNewerDriver");
    let calls: BTreeSet<String> = all().into_iter().filter(refused).map(|row| row.function().to_owned()).collect();
    assert_eq!(calls.len(), 11, "eleven: {calls:?}");
    Page::open("docs/findings.md")
        .says("Eleven calls that were added after 13.0 return `cudaErrorCallRequiresNewerDriver`".to_string());
}
