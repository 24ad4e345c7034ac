//! Generated fleets against what was put into them: every difference is found, none is invented, and every document
//! is in its bucket.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cuda_pitfalls::fleet::{Fleet, What};

use common::Scratch;
use common::fleets::{Generator, Recipe, SIZES, Truth};

/// Reports that began before this many days are stale: the generated ones are of November 2026 or of 2001.
const MAX_AGE: &str = "7000d";

fn merged(recipe: Recipe) -> (Fleet, Truth) {
    let scratch = Scratch::new();
    let folder = scratch.path().join("reports");
    fs::create_dir(&folder).expect("a folder of our own");
    let mut generator = Generator::new(recipe);
    for document in generator.by_ref() {
        // A name of a machine may hold what no file name does.
        let name: String = document.name.chars().map(|c| if c == '/' { '_' } else { c }).collect();
        fs::write(folder.join(name), document.bytes).expect("a file of our own");
    }
    let out = scratch.path().join("fleet.json");
    let [folder, out] = [folder, out].map(|path| path.to_string_lossy().into_owned());
    scratch.run(&["fleet", "merge", &folder, "--out", &out, "--max-age", MAX_AGE]).good();
    (common::read_json(out), generator.truth)
}

/// The name of a question. Of the same name asked in two ways, one has behind it what it asks.
fn name_of(fleet: &Fleet, question: usize) -> String {
    let name = &fleet.questions[question].name;
    name.split(" (asked otherwise").next().unwrap_or(name).to_owned()
}

/// What a fleet says of outcomes: machine, question, in what. The driver is no outcome.
fn outcomes(fleet: &Fleet) -> BTreeSet<(String, String, &'static str)> {
    let mut found = BTreeSet::new();
    for difference in fleet.differences.iter().filter(|difference| name_of(fleet, difference.question) != "driver") {
        let word = match difference.what {
            What::Outcome { verdict_differs: true, .. } => "verdict",
            What::Outcome { .. } => "fact",
            What::NoAnswer { .. } => "no_answer",
            What::Bytes { .. } => continue,
        };
        let question = name_of(fleet, difference.question);
        let names = difference.machines.iter().map(|place| fleet.machines[*place].name.clone());
        found.extend(names.map(|name| (name, question.clone(), word)));
    }
    found
}

fn bytes(fleet: &Fleet) -> BTreeSet<(String, String, String)> {
    let mut found = BTreeSet::new();
    for difference in &fleet.differences {
        let What::Bytes { figure, .. } = &difference.what else { continue };
        let question = name_of(fleet, difference.question);
        let names = difference.machines.iter().map(|place| fleet.machines[*place].name.clone());
        found.extend(names.map(|name| (name, question.clone(), figure.clone())));
    }
    found
}

/// What the group of a machine usually uses.
fn median(fleet: &Fleet, (machine, question, figure): &(String, String, String)) -> i64 {
    let machine = fleet.machines.iter().position(|it| it.name == *machine).expect("the machine is there");
    let of_machine = fleet.groups.iter().filter(|group| group.machines.contains(&machine));
    let mut usual =
        of_machine.flat_map(|group| &group.usual).filter(|usual| name_of(fleet, usual.question) == *question);
    usual.find_map(|usual| usual.used_bytes.get(figure)).map_or(0, |spread| spread.median_bytes)
}

/// Fails unless groups, outcomes and differences stand in the order that the document promises.
fn in_order(fleet: &Fleet) {
    let sizes: Vec<usize> = fleet.groups.iter().map(|group| group.machines.len()).collect();
    assert!(sizes.windows(2).all(|pair| pair[0] >= pair[1]) && sizes.first() > sizes.last(), "{sizes:?}");
    for usual in fleet.groups.iter().flat_map(|group| &group.usual) {
        let counts: Vec<usize> = usual.outcomes.iter().map(|outcome| outcome.machines).collect();
        assert!(counts.windows(2).all(|pair| pair[0] >= pair[1]), "{counts:?}");
    }
    // A verdict, then facts, then no answer, then bytes; of one kind a smaller share of the machines before a larger.
    let weight = |difference: &cuda_pitfalls::fleet::Difference| {
        let kind = match difference.what {
            What::Outcome { verdict_differs: true, .. } => 0,
            What::Outcome { .. } => 1,
            What::NoAnswer { .. } => 2,
            What::Bytes { .. } => 3,
        };
        let these = difference.machines.len() as f64;
        (kind, these / (these + difference.usual_machines as f64))
    };
    let weights: Vec<(i32, f64)> = fleet.differences.iter().map(weight).collect();
    for pair in weights.windows(2) {
        let ((kind, share), (next, larger)) = (pair[0], pair[1]);
        assert!(kind < next || (kind == next && share <= larger), "{pair:?}");
    }
    let differ = |pair: &[(i32, f64)]| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1;
    assert!(weights.windows(2).any(differ), "no two of one kind differ in their share: {weights:?}");
}

#[test]
fn every_difference_is_found_and_none_is_invented() {
    let recipe = Recipe { machines: 1000, hostile_percent: 20, differing_percent: 12, seed: 1 };
    let (fleet, truth) = merged(recipe);
    let names: BTreeSet<String> = fleet.machines.iter().map(|machine| machine.name.clone()).collect();
    assert_eq!(names, truth.machines, "the machines are those that have a whole report");

    let buckets: BTreeMap<String, u64> = fleet
        .input
        .buckets
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(bucket, count)| (serde_json::to_value(bucket).unwrap().as_str().unwrap().to_owned(), *count))
        .collect();
    assert_eq!(buckets, truth.buckets);
    assert_eq!(fleet.input.documents, truth.documents);
    assert_eq!(buckets.values().sum::<u64>(), truth.documents, "the buckets add up to what was read");
    let hostile = truth.documents - truth.machines.len() as u64;
    assert!((15..=25).contains(&(hostile * 100 / truth.documents)), "{hostile} of {}", truth.documents);

    in_order(&fleet);
    let found = outcomes(&fleet);
    let missed: Vec<_> = truth.outcomes.difference(&found).collect();
    let invented: Vec<_> = found.difference(&truth.outcomes).collect();
    assert!(missed.is_empty() && invented.is_empty(), "missed {missed:#?}\ninvented {invented:#?}");
    for word in ["verdict", "fact", "no_answer"] {
        assert!(truth.outcomes.iter().any(|(_, _, known)| *known == word), "no {word} was put in");
    }

    // No difference in bytes is invented, and each is found that is more than noise: more than 2 MiB, and more
    // than a hundredth of what is usual.
    let found = bytes(&fleet);
    let put: BTreeSet<_> = truth.bytes.keys().cloned().collect();
    let invented: Vec<_> = found.difference(&put).collect();
    assert!(invented.is_empty(), "invented {invented:#?}");
    for (key, more) in &truth.bytes {
        let is_noise = *more <= (2 << 20).max(median(&fleet, key) / 100);
        assert_eq!(found.contains(key), !is_noise, "{key:?} uses {more} bytes more");
    }
    let sizes_found: BTreeSet<i64> = found.iter().map(|key| truth.bytes[key]).collect();
    assert!(sizes_found.iter().eq(&SIZES[1..]), "of sizes only {sizes_found:?} were found");
    let sizes: BTreeSet<i64> = truth.bytes.values().copied().collect();
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), SIZES, "each size was put in");
}

#[test]
fn a_fleet_without_differences_has_none() {
    let recipe = Recipe { machines: 200, hostile_percent: 0, differing_percent: 0, seed: 3 };
    let (fleet, truth) = merged(recipe);
    assert_eq!(fleet.machines.len(), truth.machines.len());
    // Some have another driver.
    assert!(outcomes(&fleet).is_empty() && bytes(&fleet).is_empty(), "{:#?}", fleet.differences);
}
