//! Tests of how often `explain` finds the right answer to texts that people write, and how often it claims a wrong one.

use std::collections::BTreeSet;
use std::fs;

use cuda_pitfalls::explain::Certainty;
use cuda_pitfalls::scenario::symptom;
use xtask::documents::root;
use xtask::explain::{Answered, PhraseKind, Phrasings, RankCounts, Ranked};

use crate::made;

/// The source of texts that an outside reader typed from memory.
const OWN: &str = "own words";

fn phrasings(file: &str) -> Phrasings {
    let source =
        fs::read_to_string(root().join("tests").join(file)).expect("the texts can be read");
    Phrasings::parse(&source).expect("the texts are valid")
}

#[test]
fn the_right_answer_comes_first_for_most_of_what_nobody_asked_before() {
    let ranked = &made().fared.ranked;
    for Ranked {
        phrase,
        rank,
        first,
        certainty,
    } in ranked.iter().filter(|ranked| ranked.rank != Some(1))
    {
        println!(
            "{rank:?} {certainty:?}: {}\n    first {first}, right {:?}",
            phrase.words, phrase.answers
        );
    }
    let counts = RankCounts::from_ranked(ranked.iter());
    println!("{counts:?}");
    assert!(counts.all >= 1000, "{counts:?}");
    assert!(
        counts.first * 100 >= counts.all * 60,
        "the right one is first too seldom: {counts:?}"
    );
    assert!(
        counts.three * 100 >= counts.all * 71,
        "it is among the first three too seldom: {counts:?}"
    );
    assert!(
        counts.claimed * 100 <= counts.all * 2,
        "a wrong one is claimed too often: {counts:?}"
    );
}

#[test]
fn texts_about_something_else_are_not_answered() {
    let answered = &made().fared.answered;
    for Answered {
        negative,
        certainty,
        first,
    } in answered
        .iter()
        .filter(|it| it.certainty != Certainty::Nothing)
    {
        println!("{certainty:?}: {}\n    first {first:?}", negative.words);
    }
    let counts = RankCounts::from_others(answered.iter().map(|answered| answered.certainty));
    println!("{counts:?}");
    assert!(counts.all >= 600, "{counts:?}");
    assert!(
        counts.nothing * 100 >= counts.all * 91,
        "too many are answered: {counts:?}"
    );
    assert_eq!(counts.claimed, 0, "{counts:?}");
}

#[test]
fn texts_are_of_threads_name_answers_and_are_in_no_scenario() {
    let files = [
        "phrasings.toml",
        "phrasings-locked.toml",
        "phrasings-locked-others.toml",
    ]
    .map(phrasings);
    let scenarios = &made().scenarios;
    let names: BTreeSet<&str> = scenarios
        .iter()
        .map(|scenario| scenario.name.as_str())
        .collect();
    let is_answer = |answer: &str| match answer.split_once('/') {
        Some(("error", code)) => code.parse::<u32>().is_ok(),
        Some(("message" | "status" | "variable" | "mask" | "rule" | "need", _)) => true,
        _ if answer.starts_with("missing: ") => true,
        Some(("symptom", id)) => symptom::find(id).is_some(),
        _ => names.contains(answer),
    };
    let plain = |text: &str| {
        text.to_lowercase()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut sources = BTreeSet::new();
    let phrases = || files.iter().flat_map(|file| &file.phrase);
    let others = files
        .iter()
        .flat_map(|file| &file.negative)
        .map(|negative| &negative.source);
    for source in phrases().map(|phrase| &phrase.source).chain(others) {
        assert!(source.starts_with("http") || source == OWN, "{source}");
        assert!(
            source == OWN || sources.insert(source),
            "{source} is there twice"
        );
    }
    for phrase in phrases() {
        assert!(!phrase.answers.is_empty(), "{}", phrase.words);
        for answer in &phrase.answers {
            assert!(is_answer(answer), "{answer} is no answer");
        }
    }
    // The texts that were set aside must not be a reason for a message, so only the others can be copied.
    for phrase in &files[0].phrase {
        for said in scenarios.iter().flat_map(|scenario| &scenario.says) {
            let (words, said) = (plain(&phrase.words), plain(said));
            // A pasted message has the words of the library; nobody may copy a symptom into a scenario.
            let is_copied = phrase.kind == PhraseKind::Symptom && words.contains(&said);
            assert!(
                !is_copied && !said.contains(&words),
                "`{said}` is the phrase {words}"
            );
        }
    }
}
