//! How many claims there are of each kind.

use cuda_pitfalls::catalogue;
use cuda_pitfalls::claim::{self, Assessment, Evidence, NamedReport, Stated};
use cuda_pitfalls::report::read;

use crate::Page;
use crate::common::committed_reports;

#[test]
fn claims_are_counted_and_those_about_cuda_calls_alone_are_told() {
    let scenarios = catalogue::select(&[]).expect("the scenarios that come with the program are valid");
    let articles = claim::load_all(&scenarios).unwrap_or_else(|(wrong, _)| panic!("{wrong:?}"));
    let sources = committed_reports()
        .into_iter()
        .map(|(name, path)| NamedReport { name, report: read(&path).expect("a report") });
    let evidence = Evidence::new(sources.collect(), &scenarios);
    let ledger = claim::weigh(&articles, &evidence);
    let verdicts: Vec<_> =
        ledger.claims().filter_map(|(_, claim)| Some((claim.verdict()?, claim.claim.is_of_calls_only()))).collect();
    let count = |stated: Stated| verdicts.iter().filter(|(verdict, _)| *verdict == stated).count();
    let untestable = ledger.claims().filter(|(_, claim)| matches!(claim.claim.row, Assessment::Untestable(_))).count();
    let all = ledger.claims().count();
    let calls_only = verdicts.iter().filter(|(_, framework)| *framework).count();
    Page::open("README.md")
        .says(format!("of {all} claims in five articles, {} are confirmed", count(Stated::Confirmed)))
        .says(format!("{} refuted and {} right only under", count(Stated::Refuted), count(Stated::Qualified)))
        .says(format!("{} was looked for and not seen, {untestable} cannot be tested", count(Stated::NotSeen)))
        .says(format!("and {} waits to be measured", all - verdicts.len() - untestable))
        .says("are judged by lines of these frameworks".to_string());
    assert_eq!(calls_only, 0, "README.md says that frameworks judge the claims about them");
}
