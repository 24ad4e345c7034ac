//! Searches among synthetic releases.

use std::convert::Infallible;

use super::*;

fn bad() -> ReleaseOutcome {
    let (with, says) = ("libcuda".to_string(), "cuInit".to_string());
    ReleaseOutcome::Bad {
        with,
        says,
        at: None,
        way: Vec::new(),
        child: None,
    }
}

fn unknown() -> ReleaseOutcome {
    ReleaseOutcome::Unknown {
        why: "no wheel".to_string(),
    }
}

/// Returns the search in these packages. `outcome` returns the outcome of versions, given as numbers.
fn searched(axes: &[(&str, &[&str])], outcome: impl Fn(&[u32]) -> ReleaseOutcome) -> Bisection {
    let axis = |(package, releases): &(&str, &[&str])| ReleaseAxis {
        package: (*package).to_string(),
        releases: releases
            .iter()
            .map(|release| (*release).to_string())
            .collect(),
    };
    let mut bisection = Bisection {
        axes: axes.iter().map(axis).collect(),
        ..Bisection::default()
    };
    let done: Result<(), Infallible> = bisection.find_first_bad(|versions| {
        let numbers: Vec<u32> = versions
            .values()
            .map(|version| version.parse().expect("a number"))
            .collect();
        Ok(Some((outcome(&numbers), 1)))
    });
    done.expect("nothing fails");
    bisection
}

const TEN: &[&str] = &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

#[test]
fn every_first_bad_release_is_found_with_few_installs() {
    for first in 2..=10 {
        let found = searched(&[("a", TEN)], |at| {
            if at[0] >= first {
                bad()
            } else {
                ReleaseOutcome::Good
            }
        });
        let answer = &found.found[0];
        assert_eq!(
            (answer.first_bad.as_str(), answer.last_good.as_str()),
            (first.to_string().as_str(), (first - 1).to_string().as_str())
        );
        assert!(
            found.is_exact() && found.trials.len() <= 6,
            "{}",
            found.trials.len()
        );
    }
}

#[test]
fn releases_that_cannot_be_tried_are_named_where_they_matter() {
    let found = searched(&[("a", TEN)], |at| match at[0] {
        4..=6 => unknown(),
        7.. => bad(),
        _ => ReleaseOutcome::Good,
    });
    assert_eq!(found.found[0].between, ["4", "5", "6"]);
    assert_eq!(
        (
            found.found[0].last_good.as_str(),
            found.found[0].first_bad.as_str()
        ),
        ("3", "7")
    );
    assert!(!found.is_exact());
    let elsewhere = searched(&[("a", TEN)], |at| match at[0] {
        2 => unknown(),
        7.. => bad(),
        _ => ReleaseOutcome::Good,
    });
    assert!(elsewhere.is_exact());
}

#[test]
fn of_two_packages_the_one_that_does_it_is_found() {
    let second = searched(&[("a", TEN), ("b", TEN)], |at| {
        if at[1] >= 4 {
            bad()
        } else {
            ReleaseOutcome::Good
        }
    });
    let names: Vec<(&str, &str)> = second
        .found
        .iter()
        .map(|found| (found.package.as_str(), found.first_bad.as_str()))
        .collect();
    assert_eq!(
        (names.as_slice(), second.together),
        (&[("b", "4")][..], false)
    );
    let each = searched(&[("a", TEN), ("b", TEN)], |at| {
        if at[0] >= 3 || at[1] >= 9 {
            bad()
        } else {
            ReleaseOutcome::Good
        }
    });
    let names: Vec<&str> = each
        .found
        .iter()
        .map(|found| found.first_bad.as_str())
        .collect();
    assert_eq!((names.as_slice(), each.together), (&["3", "9"][..], false));
    let both = searched(&[("a", TEN), ("b", TEN)], |at| {
        if at[0] >= 5 && at[1] >= 8 {
            bad()
        } else {
            ReleaseOutcome::Good
        }
    });
    let names: Vec<&str> = both
        .found
        .iter()
        .map(|found| found.first_bad.as_str())
        .collect();
    assert_eq!((names.as_slice(), both.together), (&["5", "8"][..], true));
}

#[test]
fn contradicted_range_ends_give_no_answer() {
    assert_eq!(
        searched(&[("a", TEN)], |_| bad()).no_answer,
        Some(NoAnswer::GoodIsBad)
    );
    assert_eq!(
        searched(&[("a", TEN)], |_| ReleaseOutcome::Good).no_answer,
        Some(NoAnswer::BadIsGood)
    );
    assert_eq!(
        searched(&[("a", TEN)], |_| unknown()).no_answer,
        Some(NoAnswer::GoodIsUnknown)
    );
}

#[test]
fn the_older_end_is_asked_first() {
    let back: Vec<&str> = TEN.iter().rev().copied().collect();
    assert_eq!(
        searched(&[("a", TEN)], |_| unknown()).no_answer,
        Some(NoAnswer::GoodIsUnknown)
    );
    assert_eq!(
        searched(&[("a", &back)], |_| unknown()).no_answer,
        Some(NoAnswer::BadIsUnknown)
    );
    let found = searched(&[("a", &back)], |at| {
        if at[0] <= 4 {
            bad()
        } else {
            ReleaseOutcome::Good
        }
    });
    assert_eq!(
        (
            found.found[0].last_good.as_str(),
            found.found[0].first_bad.as_str()
        ),
        ("5", "4")
    );
}

#[test]
fn releases_are_taken_from_the_good_end_to_the_bad_one() {
    let listed = ["2.10.0", "2.9.1", "2.9.0", "2.8.0", "2.7.0"].map(str::to_string);
    let axis = ReleaseAxis::between("torch", &listed, "2.8.0", "2.10.0");
    assert_eq!(axis.releases, ["2.8.0", "2.9.0", "2.9.1", "2.10.0"]);
    let back = ReleaseAxis::between("torch", &listed, "2.10.0", "2.8.0");
    assert_eq!(back.releases, ["2.10.0", "2.9.1", "2.9.0", "2.8.0"]);
    // An end that was yanked is still tried.
    let yanked = ReleaseAxis::between("torch", &listed, "2.7.1", "2.9.0");
    assert_eq!(yanked.releases, ["2.7.1", "2.8.0", "2.9.0"]);
}
