//! Calls whose arguments were rejected: each is measured again with others, or has a reason why it cannot be.

use crate::common;

use std::collections::BTreeSet;

use cuda_pitfalls::survey::calls::{CallAnswer, CallRow, load_recipes};
use cuda_pitfalls::survey::{KindRow, SurveyDocument, SurveyKind};
use cuda_pitfalls::verdict::Reason;

use common::{Scratch, committed_documents};

/// Returns every committed survey of calls.
fn measured() -> Vec<SurveyDocument> {
    committed_documents(&SurveyKind::Calls.file())
        .into_iter()
        .map(|(_, file)| common::read_json(file))
        .collect()
}

#[test]
fn always_failing_call_is_retried_or_explained() {
    let recipes = load_recipes(1).unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics));
    let rows: Vec<CallRow> = measured()
        .iter()
        .flat_map(SurveyDocument::rows_of)
        .collect();
    let of_driver = |row: &&CallRow| ["libcuda", "libnvidia-ml"].contains(&row.library.as_str());
    let answered = |answer: CallAnswer| -> BTreeSet<&str> {
        let rows = rows
            .iter()
            .filter(|row| !of_driver(row) && row.answer() == Some(answer));
        rows.map(CallRow::function).collect()
    };
    let succeeded = answered(CallAnswer::Succeeded);
    let refused: Vec<&str> = answered(CallAnswer::Refused)
        .difference(&succeeded)
        .copied()
        .collect();
    assert!(
        refused.len() > 100,
        "only {} functions refused everything",
        refused.len()
    );
    let asked_again = |function: &str| {
        recipes
            .calls
            .iter()
            .any(|recipe| recipe.symbol == function && recipe.sets.iter().any(|set| set == "again"))
    };
    let silent: Vec<&&str> = refused
        .iter()
        .filter(|function| recipes.why_left_out(function).is_none())
        .filter(|function| recipes.why_refused(function).is_none() && !asked_again(function))
        .collect();
    assert!(
        silent.is_empty(),
        "refused, and nothing says whether other arguments would do: {silent:?}"
    );
}

#[test]
fn what_is_said_to_refuse_everything_is_asked_and_has_not_succeeded() {
    let recipes = load_recipes(1).unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics));
    for said in &recipes.refused {
        let pattern = glob::Pattern::new(&said.name).expect("a pattern");
        assert!(
            recipes
                .calls
                .iter()
                .any(|recipe| pattern.matches(&recipe.symbol)),
            "{} means no call",
            said.name
        );
    }
    for document in measured() {
        for row in document
            .rows_of::<CallRow>()
            .iter()
            .filter(|row| row.answer() == Some(CallAnswer::Succeeded))
        {
            let said = recipes.why_refused(row.function());
            assert_eq!(
                said,
                None,
                "{} succeeded ({})",
                row.key(),
                document.header.started_at
            );
        }
    }
}

#[test]
fn a_row_about_two_gpus_is_left_out_where_there_is_one() {
    let ask = |machine: &str| {
        let scratch = Scratch::new();
        let out = scratch.at("reports");
        let calls = [
            "cuInit",
            "cudaSetDevice-other",
            "cudaHostRegister-memory",
            "cudaGetErrorString",
        ];
        let ran = scratch
            .run(
                &[
                    &["survey", "calls"][..],
                    &calls,
                    &["--on", machine, "--json", "--out", &out],
                ]
                .concat(),
            )
            .ended(0, "ok");
        let rows: Vec<CallRow> = serde_json::from_value(ran.json()["rows"].clone()).expect("rows");
        rows
    };
    let row = |rows: &[CallRow], call: &str| {
        rows.iter()
            .find(|row| row.call == call)
            .expect("a row")
            .clone()
    };
    let one = ask("sim:h200-x1");
    let unmeasured = row(&one, "cudaSetDevice-other")
        .standing
        .unmeasured
        .expect("it needs two");
    assert_eq!(unmeasured.reason, Reason::TooFewGpus);
    let two = ask("sim:h200-x2");
    let other = row(&two, "cudaSetDevice-other");
    assert_eq!(
        (other.visible_gpus, other.context_on),
        (2, Some(vec![1])),
        "a context on the other"
    );
    let host = row(&two, "cudaHostRegister-memory");
    assert_eq!(
        (host.before.as_slice(), host.reads_mask),
        (&["posix_memalign".to_string()][..], Some(true))
    );
    assert_eq!(
        (host.context_on.as_deref(), host.answer()),
        (Some(&[0][..]), Some(CallAnswer::Succeeded))
    );
    let text = row(&two, "cudaGetErrorString");
    assert_eq!(
        (text.status, text.reads_mask),
        (None, Some(true)),
        "it returns text, and freezes the mask"
    );
}
