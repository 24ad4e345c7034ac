mod made_up;
mod told_once;

use super::fixture::{EVIL, fleet, hostile, large};
use super::*;
use cuda_pitfalls_core::text::lines::display_columns;

const FORMS: [FleetForm; 5] = [
    FleetForm::Text,
    FleetForm::Html,
    FleetForm::Markdown,
    FleetForm::Prometheus,
    FleetForm::Json,
];

fn render(fleet: &Fleet, form: FleetForm, width: usize, docs: Option<&str>) -> String {
    super::render(fleet, form, width, docs).expect("a fleet is JSON")
}

fn text(fleet: &Fleet) -> String {
    render(fleet, FleetForm::Text, 80, None)
}

#[test]
fn the_first_screen_says_how_many_who_is_missing_and_what_differs() {
    let text = text(&fleet());
    let expected = "\
cuda-pitfalls fleet
6 machines in 2 groups, 1 missing, 4 machines differ
Read        8 documents: 6 merged, 1 duplicate, 1 truncated; run from
            2026-11-20T17:49:29Z to 2026-11-20T18:02:11Z; merged by
            cuda-pitfalls 0.1.0
Missing     1 of 7 expected (node-7)
Unlisted    1 (node-6)
Alone       node-6 is alone in its group: nothing to compare with
Differ most node-2 in 1 question, node-3 in 1 question, node-4 in 1 question,
            node-5 in 1 question

What differs
Compared with the majority of each group, largest impact first. A difference is
not necessarily a fault.
 1. node-3
    Differ in   context/set-device-is-eager: different verdict on 1 of 5
                machines
                Does cudaSetDevice alone make a context?
                pitfalls/context/set-device-is-eager.md
    How         verdict: usual yes (reproduced) (4); these no (not_reproduced)
                (1)
                trap 2 cudaSetDevice: usual cudaSuccess, context on gpu1 (4);
                these cudaSuccess, no context (1)
    Group       2x NVIDIA H200, driver 580.159.04, libcudart 13.0
";
    assert!(text.starts_with(expected), "{text}");
    assert!(
        expected.lines().count() <= 25,
        "a screen has the most important difference"
    );
}

fn heads(fleet: &Fleet) -> Vec<String> {
    words::in_words(fleet)
        .iter()
        .map(|one| format!("{}: {}", one.name, one.outlier_share()))
        .collect()
}

#[test]
fn what_matters_most_comes_first() {
    let wanted = [
        "context/set-device-is-eager: different verdict on 1 of 5 machines",
        "visibility/mask-after-count: different results on 1 of 5 machines",
        "survey calls: cudaMalloc: no answer on 1 of 5 machines",
        "memory/malloc-granularity: different memory on 1 of 5 machines",
    ];
    assert_eq!(heads(&fleet()), wanted);
    // A few machines of many come before a group that is split, and a larger group before a smaller one.
    let mut fleet = fleet();
    let template = fleet.differences[0].clone();
    fleet.differences = [(6, 6), (1, 8), (1, 80), (1, 8)]
        .into_iter()
        .enumerate()
        .map(|(question, (these, usual))| {
            let machines = (0..these).collect();
            let is_split = these == usual;
            cuda_pitfalls_answers::fleet::Difference {
                question,
                machines,
                usual_machines: usual,
                is_split,
                ..template.clone()
            }
        })
        .collect();
    let wanted = [
        "visibility/mask-after-count: different verdict on 1 of 81 machines",
        "memory/malloc-granularity: different verdict on 1 of 9 machines",
        "survey calls: cudaMalloc: different verdict on 1 of 9 machines",
        "context/set-device-is-eager: different verdict: 6 against 6, no majority",
    ];
    assert_eq!(heads(&fleet.ranked()), wanted);
}

#[test]
fn both_sides_are_told_with_their_numbers_and_none_is_called_wrong() {
    for form in [FleetForm::Text, FleetForm::Html, FleetForm::Markdown] {
        let text = render(&fleet(), form, 80, None);
        for part in [
            "530 MiB",
            "2 MiB",
            "528 MiB",
            "contaminated",
            "node-5",
            "1 of 5 machines",
        ] {
            assert!(text.contains(part), "{form:?}: {part}\n{text}");
        }
        let shown = text.split("<script").next().unwrap().to_lowercase();
        for word in ["incorrect", "broken", "faulty", "bad machine"] {
            assert!(!shown.contains(word), "{form:?}: {word}");
        }
    }
}

#[test]
fn a_machine_that_differs_in_many_questions_is_named_once() {
    let mut fleet = fleet();
    for difference in &mut fleet.differences {
        difference.machines = vec![1];
    }
    fleet.differences[3].machines.push(0);
    let text = text(&fleet);
    assert!(
        text.contains("\nDiffer most node-2 in 4 questions, node-1 in 1 question\n"),
        "{text}"
    );
}

#[test]
fn a_split_group_has_no_usual_side() {
    let mut fleet = fleet();
    fleet.differences.truncate(2);
    fleet.differences.remove(0);
    fleet.differences[0].machines = vec![0, 1, 2, 3];
    fleet.differences[0].is_split = true;
    let text = text(&fleet);
    assert!(
        text.contains("4 against 4, no") && !text.contains(": usual "),
        "{text}"
    );
    assert!(
        text.contains("none differs, no majority in 1") && text.contains("5 machines, split in 1"),
        "{text}"
    );
}

#[test]
fn a_machine_without_cuda_is_the_first_line_of_every_form() {
    let mut fleet = fleet();
    fleet.machines[3].no_cuda = Some("libcuda.so.1 was not found".to_owned());
    let line = "1 machine cannot use CUDA: node-4: libcuda.so.1 was not found";
    for form in [FleetForm::Text, FleetForm::Markdown] {
        assert_eq!(
            render(&fleet, form, 80, None).lines().next(),
            Some(line),
            "{form:?}"
        );
    }
    let page = render(&fleet, FleetForm::Html, 80, None);
    let [said, title] = [line, "<h1"].map(|text| page.find(text).unwrap_or(usize::MAX));
    assert!(
        said < title && page.contains("<li class=\"bad\"><strong>1</strong> cannot use CUDA</li>"),
        "{page}"
    );
    assert!(
        page.contains("\"no_cuda\":\"libcuda.so.1 was not found\"")
            && page.contains("CUDA does not start")
    );
    let metrics = render(&fleet, FleetForm::Prometheus, 80, None);
    let series =
        "fleet_machine_without_cuda{machine=\"node-4\",reason=\"libcuda.so.1 was not found\"} 1\n";
    assert!(
        metrics.contains(series) && metrics.contains("fleet_machines_without_cuda 1\n"),
        "{metrics}"
    );
    assert!(
        render(&fleet, FleetForm::Json, 80, None)
            .contains("\"no_cuda\":\"libcuda.so.1 was not found\"")
    );
}

#[test]
fn a_fleet_in_order_says_so() {
    let mut fleet = fleet();
    fleet.differences.clear();
    fleet.expected = None;
    let shown = text(&fleet);
    assert!(
        shown.starts_with("cuda-pitfalls fleet\n6 machines in 2 groups, none differs\n"),
        "{shown}"
    );
    assert!(
        shown.contains("No machine differs from its group."),
        "{shown}"
    );
    fleet.machines.clear();
    fleet.groups.clear();
    for form in FORMS {
        assert!(render(&fleet, form, 80, None).ends_with('\n'), "{form:?}");
    }
}

#[test]
fn simulated_fleets_say_so_before_anything_else() {
    let mut fleet = fleet();
    fleet.provenance = cuda_pitfalls_core::verdict::Provenance::Simulated;
    for form in [FleetForm::Text, FleetForm::Html, FleetForm::Markdown] {
        let text = render(&fleet, form, 80, None);
        let said = text.find("SIMULATED").unwrap_or(usize::MAX);
        assert!(said < text.find("node-7").unwrap(), "{form:?}: {text}");
    }
    let file = render(&fleet, FleetForm::Prometheus, 80, None);
    assert!(file.contains("provenance=\"simulated\""), "{file}");
}

#[test]
fn every_form_is_well_formed_whatever_a_document_says() {
    for fleet in [fleet(), hostile(), large(200, 30)] {
        for width in [40, 80, 120] {
            let text = render(&fleet, FleetForm::Text, width, None);
            assert!(
                text.lines().all(|line| display_columns(line) <= width),
                "{width}: {text}"
            );
        }
        crate::fixture::assert_metrics(
            &render(&fleet, FleetForm::Prometheus, 80, None),
            "cuda_pitfalls_fleet_",
        );
        let page = render(&fleet, FleetForm::Html, 80, None);
        crate::fixture::assert_closed(page.split("<script").next().unwrap());
    }
}

#[test]
fn metrics_say_what_the_document_says() {
    let file = render(&fleet(), FleetForm::Prometheus, 80, None);
    for line in [
        "cuda_pitfalls_fleet_machines 6",
        "cuda_pitfalls_fleet_machines_missing 1",
        "cuda_pitfalls_fleet_machine_missing{machine=\"node-7\"} 1",
        "cuda_pitfalls_fleet_documents{bucket=\"duplicate\"} 1",
        "cuda_pitfalls_fleet_differences{differs_in=\"verdict\"} 1",
        "cuda_pitfalls_fleet_machine_differences{machine=\"node-3\",differs_in=\"verdict\"} 1",
        "cuda_pitfalls_fleet_question_differing{question=\"context/set-device-is-eager\",differs_in=\"verdict\",\
         gpus=\"2x NVIDIA H200\",driver=\"580.159.04\",libcudart=\"13.0\",mig=\"false\",shared=\"false\",label=\"\"} 1",
        "cuda_pitfalls_fleet_last_run_timestamp_seconds 1795197731",
    ] {
        assert!(file.lines().any(|found| found == line), "{line}\n{file}");
    }
}

#[test]
fn pitfall_page_is_linked_if_documented() {
    let fleet = fleet();
    let (with, without) = (
        render(
            &fleet,
            FleetForm::Html,
            80,
            Some("https://example.org/docs/"),
        ),
        render(&fleet, FleetForm::Html, 80, None),
    );
    let link = "<a href=\"https://example.org/docs/pitfalls/context/set-device-is-eager.md\">";
    assert!(
        with.contains(link) && !without.contains("example.org"),
        "{with}"
    );
    let page = render(
        &hostile(),
        FleetForm::Markdown,
        80,
        Some("https://example.org/docs"),
    );
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells = row.replace("\\|", "").matches('|').count();
        assert!([7, 3].contains(&cells), "{cells}: {row}");
    }
    assert!(EVIL.contains('|'));
}
