//! Tests of the output about synthetic machines: counts, one line for one cause, and important facts although nothing
//! differs.

use serde_json::{Value, json};

use super::made_up::{MIB, answers, fleet_of, merged, scenario, seen};
use super::render;
use crate::fleet::{FleetForm, changes};
use cuda_pitfalls_answers::fleet::{Fleet, What, diff};
use cuda_pitfalls_core::verdict::Kind;

fn text(fleet: &Fleet) -> String {
    render(fleet, FleetForm::Text, 200, None)
}

/// Returns `machines` machines that answer `questions` questions alike.
fn asked(machines: usize, questions: usize) -> Vec<Value> {
    let mut all = fleet_of(machines);
    for report in &mut all {
        let scenarios = (0..questions).map(|at| {
            scenario(
                &format!("context/q{at:02}"),
                "1 a: context on gpu0",
                527 * MIB,
            )
        });
        report["scenarios"] = scenarios.collect();
    }
    all
}

fn use_more(report: &mut Value, questions: std::ops::Range<usize>, bytes: i64) {
    for at in questions {
        report["scenarios"][at]["cases"][0]["outcomes"][0]["used_bytes"]["gpu0"] =
            json!(527 * MIB + bytes);
    }
}

fn calibrated(report: &mut Value, bytes: i64) {
    report["run"]["calibration"] = json!([{
        "uuid": report["machine"]["gpus"][0]["uuid"], "null_bytes": 0, "context_bytes": bytes, "allocation_bytes": 0,
        "allocated_bytes": 0, "epsilon_bytes": 2 << 20, "pid_listed": true, "sound": true,
    }]);
}

#[test]
fn an_outlier_is_neither_counted_twice_nor_part_of_what_is_usual() {
    let mut all = asked(5, 1);
    use_more(&mut all[3], 0..1, 40 * MIB);
    let fleet = merged(&all);
    let [one] = fleet.differences.as_slice() else {
        panic!("{:?}", fleet.differences)
    };
    let What::Bytes { usual, these, .. } = &one.what else {
        panic!("{one:?}")
    };
    assert_eq!(
        (
            one.machines.len(),
            one.usual_machines,
            usual.count,
            these.count
        ),
        (1, 4, 4, 1)
    );
    assert_eq!(
        (usual.least_bytes, usual.most_bytes),
        (527 * MIB, 527 * MIB)
    );
    assert_eq!(answers(&fleet).usual[0].used_bytes["trap/gpu0"], *usual);
    assert!(
        text(&fleet).contains("context/q00: different memory on 1 of 5 machines"),
        "{}",
        text(&fleet)
    );
}

#[test]
fn equally_differing_machines_share_a_labeled_row() {
    let mut all = asked(12, 20);
    for (at, report) in all.iter_mut().enumerate() {
        calibrated(
            report,
            if (4..8).contains(&at) {
                567 * MIB
            } else {
                527 * MIB
            },
        );
        report["run"]["labels"] =
            json!({"node": format!("node-{at:02}"), "rack": format!("{}", at / 4), "image": "a"});
        if (4..8).contains(&at) {
            use_more(report, 0..18, 40 * MIB);
        }
    }
    let fleet = merged(&all);
    let [outliers] = fleet.outliers.as_slice() else {
        panic!("{:?}", fleet.outliers)
    };
    assert_eq!(
        (outliers.machines.as_slice(), outliers.labels.as_slice()),
        (&[4, 5, 6, 7][..], &["rack=1".to_owned()][..])
    );
    assert_eq!(
        outliers.differences.len(),
        18 + 2,
        "the smallest and the largest context too"
    );
    let text = text(&fleet);
    for told in [
        "exactly the machines with rack=1",
        "machine: context size: different memory on 4 of 12",
    ] {
        assert!(
            text.contains(told) && !text.contains("\n 2. "),
            "{told}: {text}"
        );
    }
    // Another machine of the fleet has the label, although it is in another group, so the label shows nothing.
    all[9]["run"]["labels"]["rack"] = json!("1");
    all[9]["machine"]["driver_version"] = json!("590.1");
    let labels: Vec<String> = merged(&all)
        .outliers
        .into_iter()
        .flat_map(|outliers| outliers.labels)
        .collect();
    assert_eq!(labels, Vec::<String>::new());
}

#[test]
fn what_is_unexpected_everywhere_is_not_good_news() {
    let mut all = asked(5, 2);
    for report in &mut all {
        report["scenarios"][1]["verdict"]["expectation"] = json!("unexpected");
        report["scenarios"][1]["verdict"]["kind"] = json!("not_reproduced");
    }
    let fleet = merged(&all);
    assert!(fleet.differences.is_empty());
    assert_eq!(answers(&fleet).usual[1].unexpected, [0, 1, 2, 3, 4]);
    let text = text(&fleet);
    assert!(
        text.starts_with(
            "cuda-pitfalls fleet\n5 machines in 1 group, none differs, unexpected verdicts on 5 machines\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("\nUnexpected  context/q01 on all 5 machines\n"),
        "{text}"
    );
    let page = render(&fleet, FleetForm::Html, 80, None);
    assert!(
        page.contains("<span class=\"badge bad\">unexpected verdicts on 5 machines</span>"),
        "{page}"
    );
    assert!(!page.contains("badge good"), "nothing is green");
    assert!(
        page.contains("\"unexpected\":[0,1,2,3,4]"),
        "the map has it too"
    );
    let metrics = render(&fleet, FleetForm::Prometheus, 80, None);
    assert!(
        metrics.contains("cuda_pitfalls_fleet_machines_unexpected 5\n"),
        "{metrics}"
    );
    assert!(
        changes::render_merge(&fleet, "x", 100.into())
            .contains("Unexpected  context/q01 on all 5 machines\n")
    );
}

#[test]
fn a_machine_with_few_answers_is_named() {
    let mut all = asked(5, 50);
    all[1]["scenarios"].as_array_mut().unwrap().truncate(10);
    for question in all[3]["scenarios"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .take(40)
        .skip(2)
    {
        *question = json!({"name": question["name"], "sha256": "00ff", "verdict":
            {"kind": "skipped", "reason": "hazard_not_allowed", "expectation": "no_expectation"}});
    }
    let fleet = merged(&all);
    assert!(fleet.differences.is_empty());
    let text = text(&fleet);
    let title = "cuda-pitfalls fleet\n5 machines in 1 group, no differences in the available answers, few answers from 2 machines\n";
    assert!(text.starts_with(title), "{text}");
    assert!(
        text.contains(
            "scenarios answered, of those that most machines in the group answered: node-01 10 of 50, node-03 12 of 50"
        ),
        "{text}"
    );
    assert!(
        text.contains("5 machines, no differences in the available answers, 2 with few answers"),
        "{text}"
    );
    let page = render(&fleet, FleetForm::Html, 80, None);
    assert!(
        page.contains("\"answered\":[[50,50],[10,50],") && !page.contains("badge good"),
        "{page}"
    );
    // Questions that only one machine ran, such as a survey, do not make the others machines with few
    // answers.
    let mut all = asked(5, 2);
    let more = asked(1, 50).remove(0)["scenarios"].clone();
    all[4]["scenarios"] = more;
    assert!(merged(&all).coverage().iter().all(|it| !it.is_small()));
}

#[test]
fn another_verdict_since_the_last_audit_is_known_as_one() {
    let before = merged(&asked(6, 2));
    let mut all = asked(6, 2);
    all[1]["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] = json!([seen("1 a: 700")]);
    let facts = merged(&all);
    let found = diff(&before, &facts).unwrap();
    assert!(!found.has_other_verdict() && found.began.len() == 1);
    // The same machine changes to another verdict: a difference began, and none ended.
    all[1]["scenarios"][0]["verdict"]["kind"] = json!("not_reproduced");
    let verdict = merged(&all);
    let found = diff(&facts, &verdict).unwrap();
    assert!(
        found.has_other_verdict() && found.ceased.is_empty(),
        "{found:?}"
    );
    assert!(
        !diff(&verdict, &facts).unwrap().has_other_verdict(),
        "it went back"
    );
    // All of them change together: none differs, and the usual verdict has changed.
    let mut all = asked(6, 2);
    all.iter_mut()
        .for_each(|report| report["scenarios"][0]["verdict"]["kind"] = json!("not_reproduced"));
    let found = diff(&before, &merged(&all)).unwrap();
    assert_eq!(
        found.usual[0].verdicts,
        Some([Kind::Reproduced, Kind::NotReproduced])
    );
    assert!(found.has_other_verdict() && found.began.is_empty());
}
