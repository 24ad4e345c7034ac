//! What forms say of made-up machines: counts, one line for one cause, and what matters although nothing differs.

use serde_json::{Value, json};

use super::made_up::{MIB, fleet_of, merged, scenario, seen};
use crate::fleet::{FleetForm, changes, render};
use cuda_pitfalls_answers::fleet::{Alike, Fleet, What, diff};
use cuda_pitfalls_core::verdict::Kind;

fn text(fleet: &Fleet) -> String {
    render(fleet, FleetForm::Text, 200, None)
}

/// So many machines that answer so many questions alike.
fn asked(machines: usize, questions: usize) -> Vec<Value> {
    let mut all = fleet_of(machines);
    for report in &mut all {
        let scenarios =
            (0..questions).map(|at| scenario(&format!("context/q{at:02}"), "1 a: context on gpu0", 527 * MIB));
        report["scenarios"] = scenarios.collect();
    }
    all
}

fn use_more(report: &mut Value, questions: std::ops::Range<usize>, bytes: i64) {
    for at in questions {
        report["scenarios"][at]["cases"][0]["outcomes"][0]["used_bytes"]["gpu0"] = json!(527 * MIB + bytes);
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
    let [one] = fleet.differences.as_slice() else { panic!("{:?}", fleet.differences) };
    let What::Bytes { usual, these, .. } = &one.what else { panic!("{one:?}") };
    assert_eq!((one.machines.len(), one.usual_machines, usual.count, these.count), (1, 4, 4, 1));
    assert_eq!((usual.least_bytes, usual.most_bytes), (527 * MIB, 527 * MIB));
    assert_eq!(fleet.groups[0].usual[0].used_bytes["trap/gpu0"], *usual);
    assert!(text(&fleet).contains("Differs in  40 MiB more on 1 of 5 machines"), "{}", text(&fleet));
}

#[test]
fn one_cause_is_one_line_with_its_questions_in_the_document() {
    let mut all = asked(5, 20);
    use_more(&mut all[2], 0..18, 40 * MIB);
    let fleet = merged(&all);
    assert_eq!((fleet.differences.len(), fleet.causes.len()), (18, 1));
    let cause = &fleet.causes[0];
    assert_eq!(cause.alike, Alike::Bytes { more_bytes: 40 * MIB, is_context: false });
    assert_eq!((cause.machines.as_slice(), cause.questions.len(), cause.differences.len()), (&[2][..], 18, 18));
    let told =
        " 1. 18 questions: context/q00, context/q01, context/q02, and 15 more\n    Differs in  40 MiB more on 1 of 5";
    assert!(text(&fleet).contains(told) && !text(&fleet).contains("\n 2. "), "{}", text(&fleet));
    // A context is named where the reports' own calibrations show that it takes so much more.
    for (at, report) in all.iter_mut().enumerate() {
        calibrated(report, if at == 2 { 567 * MIB } else { 527 * MIB });
    }
    let fleet = merged(&all);
    let text = text(&fleet);
    assert!(text.contains("Differs in  a context takes 40 MiB more on 1 of 5 machines"), "{text}");
    let page = render(&fleet, FleetForm::Html, 80, None);
    assert!(page.contains("<details><summary>18 questions</summary><ul><li><a href=\"#difference=1\">context/q00"));
    assert_eq!(page.matches("a context takes 40 MiB more on 1 of 5 machines").count(), 1);
    assert!(render(&fleet, FleetForm::Markdown, 80, None).contains("18 questions<br>context/q00"));
}

#[test]
fn other_amounts_machines_and_kinds_are_other_causes() {
    let mut all = asked(9, 4);
    use_more(&mut all[2], 0..4, 40 * MIB);
    use_more(&mut all[3], 0..2, 300 * MIB);
    use_more(&mut all[4], 0..2, -80 * MIB);
    all[5]["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] = json!([seen("1 a: 700")]);
    all[5]["scenarios"][1]["cases"][0]["outcomes"][0]["facts"] = json!([seen("7 a: 700")]);
    all[5]["scenarios"][2]["verdict"]["kind"] = json!("not_reproduced");
    let fleet = merged(&all);
    let causes: Vec<(usize, usize)> = fleet.causes.iter().map(|it| (it.machines[0], it.questions.len())).collect();
    let mut sorted = causes.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [(2, 4), (3, 2), (4, 2), (5, 1), (5, 1), (5, 1)], "{:#?}", fleet.causes);
    assert_eq!(causes[0], (5, 1), "another verdict comes first");
    let text = text(&fleet);
    for told in ["4 questions: ", "in  40 MiB more on 1 of 9", "300 MiB more on 1 of 9", "80 MiB less on 1 of 9"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    // Where a fact and what is usual in its place are the same, it is one cause, at whatever step.
    let mut all = asked(5, 3);
    for (at, (usual, line)) in
        [("1 a: z", "1 a: 700"), ("7 a: z", "7 a: 700"), ("1 b: z", "1 b: 700")].into_iter().enumerate()
    {
        for (node, report) in all.iter_mut().enumerate() {
            report["scenarios"][at]["cases"][0]["outcomes"][0]["facts"] =
                json!([seen(if node == 1 { line } else { usual })]);
        }
    }
    let questions: Vec<usize> = merged(&all).causes.iter().map(|it| it.questions.len()).collect();
    assert_eq!(questions, [2, 1]);
}

#[test]
fn documents_and_spreadsheets_have_one_order_and_merge_and_render_one_count() {
    let mut all = asked(6, 18);
    use_more(&mut all[2], 0..18, 40 * MIB);
    for at in 0..18 {
        // A second case differs too: more differences than questions.
        let case = all[2]["scenarios"][at]["cases"][0].clone();
        for (node, report) in all.iter_mut().enumerate() {
            let mut second = case.clone();
            second["name"] = json!("control");
            second["outcomes"][0]["used_bytes"]["gpu0"] = json!(if node == 2 { 567 * MIB } else { 527 * MIB });
            report["scenarios"][at]["cases"].as_array_mut().unwrap().push(second);
        }
    }
    all[4]["scenarios"][3]["verdict"]["kind"] = json!("not_reproduced");
    let fleet = merged(&all);
    assert_eq!(fleet.differences.len(), 37);
    let said = changes::merged(&fleet, "fleet.json");
    assert!(said.contains("37 differences of 2 causes, in 18 of 18 questions"), "{said}");
    assert!(said.contains("Differ most node-02 in 18 questions, node-04 in 1 question\n"), "{said}");
    assert!(text(&fleet).contains("node-02 in 18 questions, node-04 in 1 question"), "{}", text(&fleet));
    let csv = render(&fleet, FleetForm::Csv, 80, None);
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').take(4).collect()).collect();
    let names = fleet.differences.iter().map(|it| fleet.questions[it.question].name.as_str());
    assert_eq!(rows.iter().map(|row| row[3]).collect::<Vec<_>>(), names.collect::<Vec<_>>());
    assert_eq!([rows[0][1], rows[1][1]], ["verdict", "bytes"]);
    assert!(csv.lines().nth(1).is_some_and(|line| line.ends_with(",1")), "the cause's number: {csv}");
    assert_eq!(csv.lines().filter(|line| line.ends_with(",2")).count(), 36);
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
    assert_eq!(fleet.groups[0].usual[1].unexpected, [0, 1, 2, 3, 4]);
    let text = text(&fleet);
    assert!(
        text.starts_with(
            "cuda-pitfalls fleet\n5 machines in 1 group, none differs, unexpected verdicts on 5 machines\n"
        ),
        "{text}"
    );
    assert!(text.contains("\nUnexpected  context/q01 on all 5 machines\n"), "{text}");
    let page = render(&fleet, FleetForm::Html, 80, None);
    assert!(page.contains("<span class=\"badge bad\">unexpected verdicts on 5 machines</span>"), "{page}");
    assert!(!page.contains("badge good"), "nothing is green");
    assert!(page.contains("\"unexpected\":[0,1,2,3,4]"), "the map has it too");
    let metrics = render(&fleet, FleetForm::Prometheus, 80, None);
    assert!(metrics.contains("cuda_pitfalls_fleet_machines_unexpected 5\n"), "{metrics}");
    assert!(changes::merged(&fleet, "x").contains("Unexpected  context/q01 on all 5 machines\n"));
}

#[test]
fn a_machine_with_few_answers_is_named() {
    let mut all = asked(5, 50);
    all[1]["scenarios"].as_array_mut().unwrap().truncate(10);
    for question in all[3]["scenarios"].as_array_mut().unwrap().iter_mut().take(40).skip(2) {
        *question = json!({"name": question["name"], "sha256": "00ff", "verdict":
            {"kind": "skipped", "reason": "hazard_not_allowed", "expectation": "no_expectation"}});
    }
    let fleet = merged(&all);
    assert!(fleet.differences.is_empty());
    let text = text(&fleet);
    let title =
        "cuda-pitfalls fleet\n5 machines in 1 group, none differs in what it answered, few answers from 2 machines\n";
    assert!(text.starts_with(title), "{text}");
    assert!(
        text.contains("of the questions that most of the group answered: node-01 10 of 50, node-03 12 of 50"),
        "{text}"
    );
    assert!(text.contains("5 machines, none differs in what it answered, 2 with few answers"), "{text}");
    let page = render(&fleet, FleetForm::Html, 80, None);
    assert!(page.contains("\"answered\":[[50,50],[10,50],") && !page.contains("badge good"), "{page}");
    // What only one machine was asked, such as a survey, makes none of the others one with few answers.
    let mut all = asked(5, 2);
    let more = asked(1, 50).remove(0)["scenarios"].clone();
    all[4]["scenarios"] = more;
    assert!(merged(&all).coverage().iter().all(|it| !it.is_small()));
}

#[test]
fn labels_say_which_machines_differ_from_the_rest() {
    let mut all = asked(12, 3);
    for (at, report) in all.iter_mut().enumerate() {
        report["run"]["labels"] = json!({"node": format!("node-{at:02}"), "rack": format!("{}", at / 4), "image": "a"});
    }
    for report in &mut all[4..8] {
        use_more(report, 0..3, 40 * MIB);
    }
    let fleet = merged(&all);
    let [cause] = fleet.causes.as_slice() else { panic!("{:?}", fleet.causes) };
    assert_eq!(cause.labels, ["rack=1"]);
    let text = text(&fleet);
    assert!(text.contains("all machines with rack=1, and no others"), "{text}");
    assert!(text.contains("Labels      rack=1: 4 of 4 machines differ, of the others 0 of 8\n"), "{text}");
    // One of the rack does not: it is no longer all of it, and still told.
    use_more(&mut all[5], 0..3, 0);
    use_more(&mut all[9], 0..1, 300 * MIB);
    let fleet = merged(&all);
    assert!(fleet.causes.iter().all(|cause| cause.labels.is_empty()), "{:?}", fleet.causes);
    let [share] = fleet.labels.as_slice() else { panic!("{:?}", fleet.labels) };
    assert_eq!((share.label.as_str(), share.differing, share.others_differing, share.others), ("rack=1", 3, 1, 8));
}

#[test]
fn another_verdict_since_the_last_audit_is_known_as_one() {
    let before = merged(&asked(6, 2));
    let mut all = asked(6, 2);
    all[1]["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] = json!([seen("1 a: 700")]);
    let facts = merged(&all);
    let found = diff(&before, &facts).unwrap();
    assert!(!found.has_other_verdict() && found.began.len() == 1);
    // The same machine goes on to another verdict: that began, and nothing ceased.
    all[1]["scenarios"][0]["verdict"]["kind"] = json!("not_reproduced");
    let verdict = merged(&all);
    let found = diff(&facts, &verdict).unwrap();
    assert!(found.has_other_verdict() && found.ceased.is_empty(), "{found:?}");
    assert!(!diff(&verdict, &facts).unwrap().has_other_verdict(), "it went back");
    // All of them change together: none differs, and the usual verdict is another.
    let mut all = asked(6, 2);
    all.iter_mut().for_each(|report| report["scenarios"][0]["verdict"]["kind"] = json!("not_reproduced"));
    let found = diff(&before, &merged(&all)).unwrap();
    assert_eq!(found.usual[0].verdicts, Some([Kind::Reproduced, Kind::NotReproduced]));
    assert!(found.has_other_verdict() && found.began.is_empty());
}
