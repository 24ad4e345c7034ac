//! Numbers of rows and functions of the surveys, and their results.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::survey::calls::{CallAnswer, CallRow};

use super::{Page, document};

/// Returns the first survey with libcudart 13.0 and two visible GPUs, without functions that were not exported: each
/// function with the plainest arguments.
fn plain() -> Vec<CallRow> {
    measured("survey-calls-h200-x2")
}

/// Returns the calls that were rejected or left out in the first survey, measured again in the same way with other
/// arguments.
fn again() -> Vec<CallRow> {
    measured("survey-calls-h200-x2/again")
}

/// Returns the rows of both; for a call that was measured twice, the last row.
fn first() -> Vec<CallRow> {
    let rows: BTreeMap<String, CallRow> = plain()
        .into_iter()
        .chain(again())
        .map(|row| (row.call.clone(), row))
        .collect();
    rows.into_values().collect()
}

fn measured(folder: &str) -> Vec<CallRow> {
    let rows = document(&format!("{folder}/survey-calls.json"))["rows"].take();
    let rows: Vec<CallRow> = serde_json::from_value(rows).expect("rows");
    rows.into_iter()
        .filter(|row| row.standing.unmeasured.is_none())
        .collect()
}

fn rows_of_library<'a>(rows: &'a [CallRow], library: &str) -> Vec<&'a CallRow> {
    rows.iter().filter(|row| row.library == library).collect()
}

fn functions(rows: &[&CallRow]) -> usize {
    rows.iter()
        .map(|row| row.function())
        .collect::<BTreeSet<_>>()
        .len()
}

fn has_context(row: &CallRow) -> bool {
    row.context_on.as_ref().is_some_and(|on| !on.is_empty())
}

#[test]
fn rows_of_libcudart_are_told_from_functions() {
    let rows = first();
    let runtime = rows_of_library(&rows, "libcudart");
    let count = |is: &dyn Fn(&CallRow) -> bool| runtime.iter().filter(|row| is(row)).count();
    let context = count(&has_context);
    let only = count(&|row| row.reads_mask == Some(true) && !has_context(row));
    let after = count(&|row| row.is_initialised_before() && !has_context(row));
    let (asked, all) = (functions(&runtime), runtime.len());
    Page::open("docs/results.md")
        .says(format!("For libcudart 13.0, it called {asked} functions in {all} rows"))
        .says(format!("{context} create a context, {only} only initialize the driver and so read the mask, one does"))
        .says(format!("{after} create no context if the driver was initialized before"));
    Page::open("docs/findings.md")
        .says(format!("{asked} libcudart 13.0 functions have {all} rows"))
        .says(format!(
            "All of {asked} libcudart 13.0 functions except `cudaRuntimeGetVersion` do"
        ))
        .says(format!(
            "In [calls](surveys/calls.md), {context} of all {all} libcudart 13.0 rows do"
        ));
    let free: Vec<&str> = runtime
        .iter()
        .filter(|row| row.reads_mask == Some(false))
        .map(|row| row.function())
        .collect();
    assert_eq!(free, ["cudaRuntimeGetVersion"]);
    assert_eq!(context + only + after + free.len(), all);
}

#[test]
fn failed_and_successful_calls_affect_contexts_alike() {
    let (plain, again) = (plain(), again());
    let refused: BTreeMap<&str, &CallRow> = rows_of_library(&plain, "libcudart")
        .into_iter()
        .filter(|row| row.call == row.function() && row.answer() == Some(CallAnswer::Refused))
        .map(|row| (row.function(), row))
        .collect();
    let pairs: Vec<(&CallRow, &CallRow)> = again
        .iter()
        .filter_map(|row| refused.get(row.function()).map(|plain| (*plain, row)))
        .collect();
    let succeeded = pairs
        .iter()
        .filter(|(_, row)| row.answer() == Some(CallAnswer::Succeeded));
    let (alike, other): (Vec<_>, Vec<_>) =
        succeeded.partition(|(plain, row)| plain.context_on == row.context_on);
    let other: Vec<&str> = other.into_iter().map(|(_, row)| row.function()).collect();
    assert_eq!(other, ["cudaDeviceEnablePeerAccess"]);
    Page::open("docs/results.md").says(format!(
        "{} were called again with arguments that work, and {} of them",
        alike.len() + 1,
        alike.len()
    ));
    Page::open("docs/findings.md").says(format!(
        "{} libcudart 13.0 functions failed with the plainest arguments. {} of them succeed with others, and {} of these",
        pairs.len(),
        alike.len() + 1,
        alike.len()
    ));
    let graphs = again
        .iter()
        .filter(|row| row.call.starts_with("cudaGraph") && has_context(row))
        .count();
    Page::open("docs/findings.md").says(format!(
        "each of {graphs} libcudart 13.0 calls that add to it"
    ));
}

#[test]
fn of_libcuda_one_call_freezes_and_some_look_at_their_arguments_first() {
    let rows = first();
    let driver = rows_of_library(&rows, "libcuda");
    let refused = driver
        .iter()
        .filter(|row| row.answer() == Some(CallAnswer::Refused))
        .count();
    let freeze: Vec<&str> = driver
        .iter()
        .filter(|row| row.reads_mask == Some(true))
        .map(|row| row.function())
        .collect();
    assert_eq!(freeze, ["cuInit"]);
    Page::open("docs/results.md").says(format!(
        "Among {} rows of libcuda, only `cuInit` reads it",
        driver.len()
    ));
    Page::open("docs/findings.md").says(format!(
        "Among {} libcuda functions, only `cuInit` does. {refused} rows of the others reject their arguments",
        functions(&driver)
    ));
}
