//! Checks and expectations as sentences.

use std::fmt::Write;

use cuda_pitfalls_core::scenario::{Check, Expectation, Expected, When};

pub(super) fn expected(expectation: &Expectation) -> String {
    let verdict = match expectation.verdict {
        Expected::Reproduced => "reproduced",
        Expected::NotReproduced => "not reproduced",
    };
    let mut words = format!(
        "{verdict}{}",
        condition_words(&expectation.when, &expectation.when.packages)
    );
    reason(&mut words, &expectation.because, &expectation.evidence);
    words
}

fn condition_words(when: &When, packages: &[String]) -> String {
    let mut all = Vec::new();
    let ranges = [
        ("driver", &when.driver),
        ("libcudart", &when.libcudart),
        ("compute capability", &when.compute_capability),
        ("GPUs", &when.gpus),
    ];
    for (name, range) in ranges {
        all.extend(range.as_ref().map(|range| format!("{name} {range}")));
    }
    for (name, values) in &when.parameters {
        let values: Vec<String> = values.iter().map(|value| value.to_string()).collect();
        all.push(format!("{name} is {}", values.join(" or ")));
    }
    all.extend(packages.iter().map(|text| format!("there is {text}")));
    if all.is_empty() {
        String::new()
    } else {
        format!(", where {}", all.join(" and "))
    }
}

fn reason(words: &mut String, because: &str, evidence: &str) {
    if !because.is_empty() {
        let _ = write!(words, ": {because}");
    }
    if !evidence.is_empty() {
        let _ = write!(words, " ({evidence})");
    }
}

pub(super) fn check(check: &Check) -> String {
    let mut words = match &check.facts.exit {
        Some(exit) => exit.sentence(),
        None => format!(
            "at {}: {}",
            check.at,
            check.facts.sentences().join(", and ")
        ),
    };
    // Its packages are those of the file's verdict, where they are listed.
    words.push_str(&condition_words(&check.when, &[]));
    reason(&mut words, &check.because, &check.evidence);
    words
}
