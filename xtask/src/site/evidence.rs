//! What a page rests on, and the line at its end that says so.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::text::escape::html;

/// When and by what a document of the evidence was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The day on which it began: `2026-11-20`.
    pub day: String,
    /// The version of the program that measured it.
    pub version: String,
    /// The version of the driver; empty if none is known.
    pub driver: String,
}

/// The documents among what a page names below `reports/`: their names, or paths below them.
pub(super) fn names(named: &BTreeSet<String>, evidence: &BTreeMap<String, Measured>) -> BTreeSet<String> {
    let ancestors = |name: &str| {
        let ends: Vec<usize> = name.match_indices('/').map(|(at, _)| at).chain([name.len()]).collect();
        ends.into_iter().rev().filter_map(|end| name.get(..end)).map(str::to_owned).collect::<Vec<_>>()
    };
    let known = |name: &String| ancestors(name).into_iter().find(|one| evidence.contains_key(one));
    named.iter().filter_map(known).collect()
}

/// The end of a page: the version of the program, and the days and versions of the evidence.
pub(super) fn stand(version: &str, rests: &BTreeSet<String>, evidence: &BTreeMap<String, Measured>) -> String {
    let (measured, subject): (Vec<&Measured>, &str) = if rests.is_empty() {
        (evidence.values().collect(), "This page names no measurement; the evidence of the project is")
    } else {
        (rests.iter().filter_map(|name| evidence.get(name)).collect(), "This page rests on")
    };
    let all = |of: fn(&Measured) -> &str| {
        let all: BTreeSet<&str> = measured.iter().map(|it| of(it)).filter(|it| !it.is_empty()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    let days: BTreeSet<&str> = measured.iter().map(|it| it.day.as_str()).collect();
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first == last => format!("on {first}"),
        (Some(first), Some(last)) => format!("from {first} to {last}"),
        _ => String::new(),
    };
    let documents = if measured.len() == 1 { "1 document" } else { &format!("{} documents", measured.len()) };
    let (by, drivers) = (all(|it| &it.version), all(|it| &it.driver));
    let drivers = if drivers.is_empty() { drivers } else { format!(" on driver {drivers}") };
    let rests = if measured.is_empty() {
        String::new()
    } else {
        format!(" {subject} {documents}, measured {days} with cuda-pitfalls {by}{drivers}.")
    };
    format!("<footer class=\"stand\">{}</footer>", html(&format!("cuda-pitfalls {version}.{rests}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_when_and_with_what_its_evidence_was_measured() {
        let measured = |day: &str| Measured { day: day.into(), version: "0.1.0".into(), driver: "580.1".into() };
        let evidence =
            BTreeMap::from([("a".to_owned(), measured("2026-11-20")), ("a/b".into(), measured("2026-11-22"))]);
        let named = BTreeSet::from(["a/report.json".to_owned(), "a/b/report.json".into(), "cuInit".into()]);
        let rests = names(&named, &evidence);
        assert_eq!(rests, BTreeSet::from(["a".to_owned(), "a/b".into()]));
        let said = stand("0.2.0", &rests, &evidence);
        let expected = "cuda-pitfalls 0.2.0. This page rests on 2 documents, measured from 2026-11-20 to 2026-11-22 \
                        with cuda-pitfalls 0.1.0 on driver 580.1.";
        assert!(said.contains(expected), "{said}");
        assert!(stand("0.2.0", &BTreeSet::new(), &evidence).contains("names no measurement"));
    }
}
