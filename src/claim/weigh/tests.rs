use super::*;
use crate::claim::fixture::{answer, answers, articles, evidence};
use crate::report::ScenarioReport;

/// How the three claims stand on these reports, and how the command would end.
fn stand(provenance: &str, reports: Vec<Vec<ScenarioReport>>) -> (Vec<Option<Held>>, Exit) {
    let articles = articles();
    let ledger = weigh(&articles, &evidence(provenance, reports));
    (ledger.claims().map(|(_, claim)| claim.held).collect(), ledger.exit())
}

#[test]
fn a_verdict_stands_on_all_that_its_row_names() {
    let whole = stand("measured", vec![answers()]);
    assert_eq!(whole, (vec![Some(Held::Stands), Some(Held::Stands), None], Exit::Ok));
    let (first, second) = (answers()[..2].to_vec(), answers()[2..].to_vec());
    assert_eq!(stand("measured", vec![first, second]), whole, "reports are taken together");
}

#[test]
fn what_was_not_measured_leaves_a_row_open() {
    let part = answers()[..3].to_vec();
    assert_eq!(stand("measured", vec![part]), (vec![Some(Held::Stands), Some(Held::Open), None], Exit::Inconclusive));
    let part = answers()[..1].to_vec();
    let open = vec![Some(Held::Open), Some(Held::NotMeasured), None];
    assert_eq!(stand("measured", vec![part]), (open, Exit::Inconclusive));
    assert_eq!(stand("measured", Vec::new()).1, Exit::NothingMeasured);
    let skipped = vec![answer("context/guard", "skipped", "13.0")];
    assert_eq!(stand("measured", vec![skipped]).1, Exit::NothingMeasured);
}

#[test]
fn one_contradiction_is_not_outvoted() {
    let mut other = answers();
    other[3] = answer("context/query[q=b]", "reproduced", "13.0");
    let held = vec![Some(Held::Stands), Some(Held::Contradicted), None];
    assert_eq!(stand("measured", vec![answers(), other]), (held, Exit::Unexpected));
    // The same verdict on another libcudart than the row speaks of.
    let other = vec![answer("context/guard", "reproduced", "11.8")];
    assert_eq!(stand("measured", vec![answers(), other]).0[0], Some(Held::Contradicted));
}

#[test]
fn a_fact_is_needed_beside_the_verdict() {
    let mut all = answers();
    all[0].cases[0].outcomes[0].observation.steps[0].contexts = Some(Vec::new());
    assert_eq!(stand("measured", vec![all]).0[0], Some(Held::Contradicted));
    let mut all = answers();
    all[0].cases[0].outcomes[0].observation.steps[0].contexts = None;
    assert_eq!(stand("measured", vec![all]).0[0], Some(Held::Open), "what was not read decides nothing");
}

#[test]
fn a_machine_that_gave_no_answer_does_not_weaken_one_that_did() {
    let articles = articles();
    let skipped = vec![answer("context/query[q=a]", "skipped", "13.0")];
    let ledger = weigh(&articles, &evidence("measured", vec![answers(), skipped]));
    let weighed = &ledger.articles[0].1[1];
    assert_eq!(weighed.verdict(), Some(Stated::Refuted));
    assert_eq!(weighed.shown_by[0].answers.len(), 2);
}

#[test]
fn a_simulated_node_measures_nothing() {
    assert_eq!(stand("simulated", vec![answers()]).1, Exit::NothingMeasured);
}

#[test]
fn a_verdict_without_attempts_is_no_evidence() {
    let articles = articles();
    let told = evidence("measured", vec![answers()]);
    let judged = Evidence::new(told.sources().to_vec());
    assert_eq!(weigh(&articles, &judged).exit(), Exit::NothingMeasured);
}

#[test]
fn figures_are_read_where_there_was_an_answer() {
    let articles = articles();
    let ledger = weigh(&articles, &evidence("measured", vec![answers(), answers()]));
    let numbers = &ledger.articles[0].1[0].numbers;
    assert_eq!(numbers[0].readings.len(), 4);
    let distinct = numbers[0].distinct();
    assert_eq!((distinct.len(), distinct[0].0), (1, "gpu0 +527 MiB"));
    assert_eq!(numbers[0].readings[0].value, 527_i64 << 20);
    assert_eq!(numbers[1].distinct()[0].0, "ended 0");
}
