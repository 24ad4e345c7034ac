//! What is found for words of each kind, among the scenarios that come with the program.

use std::sync::LazyLock;

use super::*;
use crate::summary;
use cuda_pitfalls_core::catalogue;

static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| catalogue::select(&[]).unwrap());
static SUMMARY: LazyLock<Summary> = LazyLock::new(summary::embedded);
static EXPLAINER: LazyLock<Explainer<'static>> = LazyLock::new(|| Explainer::new(&SCENARIOS, &SUMMARY));

fn names(words: &str) -> Vec<String> {
    let found = EXPLAINER.explain(Query::parse(words));
    found.answers.iter().map(|answer| answer.scenario.name.clone()).collect()
}

fn first(words: &str) -> String {
    names(words).first().cloned().unwrap_or_default()
}

#[test]
fn the_examples_of_the_documentation_find_their_answers() {
    for (words, name) in [
        ("Cannot re-initialize CUDA in forked subprocess", "framework/torch-fork-after-available"),
        ("torch.cuda.is_available mask", "framework/torch-is-available-then-mask"),
        ("CUDA_LAUNCH_BLOCKING", "process/env-launch-blocking"),
        ("cudaSetDevice", "context/set-device-is-eager"),
        ("cudaErrorInitializationError", "process/fork-after-cuinit"),
    ] {
        assert_eq!(first(words), name, "{words}: {:?}", names(words));
    }
}

#[test]
fn of_a_call_that_no_question_is_about_the_survey_says_all() {
    let found = EXPLAINER.explain(Query::parse("cudaGetErrorString"));
    assert!(found.answers.is_empty() && found.facts.len() == 1, "{:?}", found.facts);
    assert_eq!(first("500 MiB on GPU 0"), "context/guard-restore-pollutes-gpu0");
}

#[test]
fn misspelt_words_find_the_same() {
    for (misspelt, right) in [
        ("cudaSetDevise", "cudaSetDevice"),
        ("CUDA_LAUNCH_BLOKING", "CUDA_LAUNCH_BLOCKING"),
        ("zombbie process holds memory", "zombie process holds memory"),
        ("torch pin_memroy", "torch pin_memory"),
    ] {
        assert_eq!(first(misspelt), first(right), "{misspelt}: {:?}", names(misspelt));
        assert!(!first(right).is_empty());
    }
}

#[test]
fn a_pasted_traceback_finds_what_its_message_finds() {
    let pasted = "Traceback (most recent call last):\n  File \"/x/site-packages/torch/cuda/__init__.py\", line 305, in _lazy_init\n    raise RuntimeError(\nRuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method\n";
    assert_eq!(first(pasted), "framework/torch-fork-after-available");
}

#[test]
fn the_word_of_an_answer_is_that_of_what_is_expected() {
    let of = |name: &str| word(SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap());
    assert_eq!(of("process/fork-after-cuinit"), Word::Yes);
    assert_eq!(of("visibility/mask-after-nvml"), Word::No);
    assert_eq!(of("context/set-device-is-eager"), Word::Depends);
    assert_eq!(of("visibility/mask-after-version-query"), Word::Depends);
}

#[test]
fn scenarios_are_found_by_their_own_questions() {
    let is_found = |scenario: &&Scenario| {
        let found = EXPLAINER.explain(Query::parse(&scenario.question));
        found.answers.first().is_some_and(|answer| answer.scenario.name == scenario.name)
    };
    let lost: Vec<&str> = SCENARIOS
        .iter()
        .step_by(4)
        .filter(|scenario| !is_found(scenario))
        .map(|scenario| scenario.name.as_str())
        .collect();
    assert!(lost.len() <= 2, "{lost:?}");
}
