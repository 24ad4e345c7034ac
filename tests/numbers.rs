//! Every number of the collection has a scenario, or an explanation why it does not.

use crate::common;

use std::collections::BTreeSet;
use std::fs;

use cuda_pitfalls::catalogue;

use common::root;

/// The last number of each letter.
const LAST: [(char, u32); 7] = [
    ('A', 30),
    ('B', 29),
    ('C', 22),
    ('D', 16),
    ('E', 24),
    ('F', 23),
    ('G', 26),
];

fn numbers() -> BTreeSet<String> {
    LAST.iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number:02}")))
        .collect()
}

/// Returns the numbers in a text; `G01–G26` means all of these.
fn named(text: &str) -> BTreeSet<String> {
    let all = numbers();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '–');
    let of = |word: &str| -> Vec<String> {
        match word.split_once('–') {
            Some((first, last)) => all
                .iter()
                .filter(|it| (first..=last).contains(&it.as_str()))
                .cloned()
                .collect(),
            None => all.get(word).cloned().into_iter().collect(),
        }
    };
    words.flat_map(of).collect()
}

#[test]
fn every_number_is_asked_or_says_why_not() {
    let scenarios = catalogue::select_scenarios(&[])
        .expect("the scenarios that come with the program are valid");
    let asked: BTreeSet<String> = scenarios
        .iter()
        .flat_map(|scenario| scenario.tags.iter().cloned())
        .collect();
    let page = fs::read_to_string(root().join("docs/not-asked.md")).expect("the page");
    let tables: Vec<&str> = page.split("The pitfalls of frameworks").collect();
    let &[without, frameworks] = tables.as_slice() else {
        panic!("the page has two tables")
    };
    let column = |table: &str, number: usize| -> BTreeSet<String> {
        let rows = table.lines().filter(|line| line.starts_with("| "));
        rows.flat_map(|row| named(row.split('|').nth(number).unwrap_or_default()))
            .collect()
    };
    // The first columns name what has no scenario, and every framework's pitfall; the last one of the
    // second table names what its calls are tested as.
    let (without, instead) = (column(without, 1), column(frameworks, 3));
    let frameworks: Vec<String> = column(frameworks, 1).into_iter().collect();
    let all: Vec<String> = numbers()
        .into_iter()
        .filter(|it| it.starts_with('G'))
        .collect();
    assert_eq!(
        frameworks, all,
        "the second table names every number of a framework"
    );
    let silent: Vec<String> = numbers()
        .into_iter()
        .filter(|it| !asked.contains(it) && !without.contains(it))
        .collect();
    assert!(
        silent.is_empty(),
        "no scenario, and no word why: {silent:?}"
    );
    let stale: Vec<&String> = without.intersection(&asked).collect();
    assert!(stale.is_empty(), "they have a scenario by now: {stale:?}");
    let nowhere: Vec<&String> = instead.difference(&asked).collect();
    assert!(
        nowhere.is_empty() && instead.len() > 20,
        "no scenario asks {nowhere:?} ({} named)",
        instead.len()
    );
}
