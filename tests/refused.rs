//! Calls whose arguments were refused: each is asked again with others, or says why it cannot be.

mod common;

use std::collections::BTreeSet;
use std::fs;

use cuda_pitfalls::survey::calls::{Answer, CallRow, recipes};
use cuda_pitfalls::survey::document::{Document, Row};

use common::root;

/// Every committed survey of calls.
fn measured() -> Vec<Document<CallRow>> {
    let folders = fs::read_dir(root().join("reports")).expect("reports").flatten();
    // Runs of one's own bear a time in their name and are not committed.
    let own = |folder: &fs::DirEntry| folder.file_name().to_string_lossy().contains("Z-");
    let files = folders.filter(|folder| !own(folder)).map(|folder| folder.path().join("survey-calls.json"));
    let read = |file| serde_json::from_slice(&fs::read(file).expect("it can be read")).expect("a survey of calls");
    files.filter(|file| file.is_file()).map(read).collect()
}

#[test]
fn a_call_that_only_refused_is_asked_again_or_says_why_it_must() {
    let recipes = recipes(1).unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics));
    let rows: Vec<CallRow> = measured().into_iter().flat_map(|document| document.rows).collect();
    let of_driver = |row: &&CallRow| ["libcuda", "libnvidia-ml"].contains(&row.library.as_str());
    let answered = |answer: Answer| -> BTreeSet<&str> {
        let rows = rows.iter().filter(|row| !of_driver(row) && row.answer() == Some(answer));
        rows.map(CallRow::function).collect()
    };
    let succeeded = answered(Answer::Succeeded);
    let refused: Vec<&str> = answered(Answer::Refused).difference(&succeeded).copied().collect();
    assert!(refused.len() > 100, "only {} functions refused everything", refused.len());
    let asked_again = |function: &str| {
        recipes.calls.iter().any(|recipe| recipe.symbol == function && recipe.sets.iter().any(|set| set == "again"))
    };
    let silent: Vec<&&str> = refused
        .iter()
        .filter(|function| recipes.why_left_out(function).is_none())
        .filter(|function| recipes.why_refused(function).is_none() && !asked_again(function))
        .collect();
    assert!(silent.is_empty(), "refused, and nothing says whether other arguments would do: {silent:?}");
}

#[test]
fn what_is_said_to_refuse_everything_is_asked_and_has_not_succeeded() {
    let recipes = recipes(1).unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics));
    for said in &recipes.refused {
        let pattern = glob::Pattern::new(&said.name).expect("a pattern");
        assert!(recipes.calls.iter().any(|recipe| pattern.matches(&recipe.symbol)), "{} means no call", said.name);
    }
    for document in measured() {
        for row in document.rows.iter().filter(|row| row.answer() == Some(Answer::Succeeded)) {
            let said = recipes.why_refused(row.function());
            assert_eq!(said, None, "{} succeeded ({})", row.key(), document.survey.started_at);
        }
    }
}
