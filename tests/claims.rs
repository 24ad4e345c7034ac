//! The claims: each of the articles' has its row, and nothing but a measurement confirms one.

use crate::common;

use std::fs;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::claim::{self, Article, Assessment};

use common::{Scratch, root};

/// How many claims each article makes.
const CLAIMS: [u32; 5] = [14, 8, 13, 10, 26];

fn articles() -> Vec<Article> {
    let scenarios = catalogue::select(&[]).expect("the scenarios that come with the program are valid");
    claim::load_all(&scenarios).unwrap_or_else(|(diagnostics, source)| {
        let lines: Vec<String> = diagnostics.iter().map(|diagnostic| diagnostic.render(&source, false)).collect();
        panic!("{}", lines.join("\n"))
    })
}

#[test]
fn every_claim_has_its_row() {
    let mut missing = Vec::new();
    let articles = articles();
    let ids: Vec<&str> = articles.iter().flat_map(|article| &article.claims).map(|claim| claim.id.as_str()).collect();
    for (article, count) in CLAIMS.into_iter().enumerate() {
        let wanted = (1..=count).map(|number| format!("S{article}-{number}"));
        missing.extend(wanted.filter(|id| !ids.contains(&id.as_str())));
    }
    assert!(missing.is_empty(), "no row for {missing:?}");
    assert_eq!(ids.len(), CLAIMS.into_iter().sum::<u32>() as usize, "{ids:?}");
}

#[test]
fn rows_are_in_our_own_words() {
    for article in articles() {
        let file = fs::read_to_string(root().join(format!("scenarios/claims/{}.toml", article.name)))
            .expect("an article's file");
        // The title and the author's name are how a reader finds the text.
        let cited = |line: &&str| line.starts_with("title ") || line.starts_with("author ");
        let ours: String = file.lines().filter(|line| !cited(line)).collect();
        let foreign: Vec<char> = ours.chars().filter(|c| *c as u32 > 0x2fff).collect();
        assert!(foreign.is_empty(), "{} quotes: {foreign:?}", article.name);
        for claim in &article.claims {
            let Assessment::Tested(tested) = &claim.row else { continue };
            assert!(!tested.numbers.is_empty(), "{} shows no figure", claim.id);
        }
    }
}

#[test]
fn a_simulated_report_confirms_nothing() {
    let scratch = Scratch::new();
    let selected = ["visibility/mask-after-cuinit", "visibility/mask-after-reset", "process/env-module-loading"];
    let (_, report) = scratch.simulate("sim:h200-x2", &selected, &["--quick"]);
    let stored = scratch.reports().join(&report.run.id);
    let ran = scratch.run(&["claims", &stored.to_string_lossy()]);
    ran.ended(4, "nothing_measured");
    assert!(ran.stdout.contains("simulated: agrees with the row"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("confirmed"), "{}", ran.stdout);
}

/// A compact report says what the answer was, and has nothing by which to judge it again.
#[test]
fn a_compact_report_is_no_evidence_for_a_claim() {
    let ran = Scratch::new().run(&["claims", "reports/compact/h200-x2-all.json"]);
    ran.ended(2, "usage");
    assert!(ran.stderr.contains("it is compact") && ran.stderr.contains("give the whole report"), "{}", ran.stderr);
}

#[test]
fn where_there_is_no_report_nothing_is_measured() {
    let scratch = Scratch::new();
    let mut command = scratch.command(&["claims", "--json"]);
    command.current_dir(scratch.path());
    let ran = scratch.start(command).wait(std::time::Duration::from_secs(60));
    ran.ended(4, "nothing_measured");
    assert!(ran.stderr.contains("no measured report in ./reports"), "{}", ran.stderr);
    let document = ran.json();
    let claims = document["claims"].as_array().expect("claims");
    assert!(
        claims.iter().all(|claim| ["not_measured", "untestable"].contains(&claim["verdict"].as_str().unwrap_or("")))
    );
}

#[test]
fn a_report_that_cannot_be_read_is_a_wrong_argument() {
    let ran = Scratch::new().run(&["claims", "Cargo.toml", "--json"]);
    ran.ended(2, "usage");
    assert!(ran.json()["error"].as_str().is_some_and(|error| error.contains("not a report")));
    Scratch::new().run(&["claims", "--json", "--as", "text"]).ended(2, "usage");
}
