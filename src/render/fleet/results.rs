//! The metrics of a fleet.

use std::collections::BTreeMap;

use super::standing;
use super::words;
use crate::machine::prometheus::{Metric, Sample, write_metrics};
use crate::words::provenance;
use cuda_pitfalls_answers::fleet::{Fleet, Rank, outliers};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::counts::group_by_key;

/// Every metric of a fleet, in the order of the file.
const METRICS: &[Metric] = &[
    ("fleet_machines", "Machines with a report."),
    ("fleet_groups", "Groups of comparable machines."),
    ("fleet_machines_alone", "Machines alone in their group."),
    ("fleet_machines_expected", "Expected machines."),
    (
        "fleet_machines_missing",
        "Expected machines without a report.",
    ),
    ("fleet_machine_missing", "Missing machine; always 1."),
    (
        "fleet_machines_without_cuda",
        "Machines where CUDA does not start.",
    ),
    (
        "fleet_machine_without_cuda",
        "Machine where CUDA does not start; always 1.",
    ),
    (
        "fleet_machine_left_out",
        "Machine whose reports were all left out; always 1.",
    ),
    (
        "fleet_machine_conflicts",
        "Reports of a machine that disagree with its latest.",
    ),
    ("fleet_documents", "Documents read, by outcome."),
    (
        "fleet_machines_few_answers",
        "Machines that answered fewer than 90 % of the scenarios.",
    ),
    (
        "fleet_machines_unexpected",
        "Machines with an unexpected verdict by their own reports.",
    ),
    (
        "fleet_machines_differing",
        "Machines that differ from their group.",
    ),
    ("fleet_differences", "Differences, by what differs."),
    (
        "fleet_outliers",
        "Sets of machines with the same differences.",
    ),
    (
        "fleet_machine_differences",
        "Scenarios in which a machine differs.",
    ),
    (
        "fleet_question_differing",
        "Machines of a group that differ in a scenario.",
    ),
    (
        "fleet_first_run_timestamp_seconds",
        "Start of the earliest merged run.",
    ),
    (
        "fleet_last_run_timestamp_seconds",
        "Start of the latest merged run.",
    ),
    (
        "fleet_build_info",
        "Version that merged, and provenance; always 1.",
    ),
];

/// Returns the metrics. Machines that differ or are missing have individual series; the others are counted, so that the
/// number of series does not grow with a healthy fleet.
pub(super) fn write_fleet_metrics(fleet: &Fleet) -> String {
    let mut samples = count_samples(fleet);
    samples.extend(machine_samples(fleet));
    samples.extend(difference_samples(fleet));
    write_metrics(METRICS, &samples.iter().collect::<Vec<_>>())
}

fn count_samples(fleet: &Fleet) -> Vec<Sample> {
    let mut samples = vec![
        Sample::figure("fleet_machines", fleet.machines.len()),
        Sample::figure("fleet_groups", standing::answer_groups(fleet).count()),
        Sample::figure("fleet_machines_alone", standing::alone(fleet).len()),
        Sample::figure(
            "fleet_machines_few_answers",
            standing::few_answers(fleet).len(),
        ),
        Sample::figure(
            "fleet_machines_unexpected",
            standing::unexpected_machines(fleet),
        ),
    ];
    if let Some(expected) = &fleet.expected {
        samples.push(Sample::figure("fleet_machines_expected", expected.machines));
        let missing = expected.missing.len();
        samples.push(Sample::figure("fleet_machines_missing", missing));
    }
    let input = &fleet.input;
    for (bucket, count) in &input.buckets {
        let labels = vec![("bucket", word(bucket))];
        samples.push(Sample::new("fleet_documents", labels, count));
    }
    for (name, at) in [
        ("fleet_first_run_timestamp_seconds", &input.from),
        ("fleet_last_run_timestamp_seconds", &input.to),
    ] {
        samples.extend(at.as_ref().and_then(|at| Sample::time(name, at)));
    }
    let labels = vec![
        ("version", fleet.version.clone()),
        ("provenance", provenance(fleet.provenance).to_owned()),
    ];
    samples.push(Sample::new("fleet_build_info", labels, 1));
    samples
}

/// Returns samples for the machines that are missing, or have a problem.
fn machine_samples(fleet: &Fleet) -> Vec<Sample> {
    let mut samples = Vec::new();
    for name in fleet.expected.iter().flat_map(|expected| &expected.missing) {
        let labels = vec![("machine", name.clone())];
        samples.push(Sample::new("fleet_machine_missing", labels, 1));
    }
    let mut without_cuda = 0;
    for machine in &fleet.machines {
        let name = ("machine", machine.name.clone());
        if let Some(reason) = &machine.no_cuda {
            let labels = vec![name.clone(), ("reason", reason.clone())];
            samples.push(Sample::new("fleet_machine_without_cuda", labels, 1));
            without_cuda += 1;
        }
        if let Some(reason) = machine.left_out {
            let labels = vec![name.clone(), ("reason", word(reason))];
            samples.push(Sample::new("fleet_machine_left_out", labels, 1));
        }
        if !machine.conflicts.is_empty() {
            let conflicts = machine.conflicts.len();
            samples.push(Sample::new(
                "fleet_machine_conflicts",
                vec![name],
                conflicts,
            ));
        }
    }
    samples.push(Sample::figure("fleet_machines_without_cuda", without_cuda));
    samples
}

fn difference_samples(fleet: &Fleet) -> Vec<Sample> {
    let told = words::in_words(fleet);
    let differing = standing::count_differing(fleet, &told);
    let mut samples = vec![
        Sample::figure("fleet_machines_differing", differing),
        Sample::figure("fleet_outliers", outliers(fleet).len()),
    ];
    for rank in Rank::ALL {
        let count = told.iter().filter(|one| one.rank == rank).count();
        let labels = vec![("differs_in", rank.name().to_owned())];
        samples.push(Sample::new("fleet_differences", labels, count));
    }
    let mut of_machines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut of_questions = Vec::new();
    for one in &told {
        if !one.is_split {
            for machine in &one.machines {
                *of_machines.entry((machine, one.rank.name())).or_default() += 1;
            }
        }
        let Some(group) = fleet.groups.get(one.difference.group) else {
            continue;
        };
        let key = &group.key;
        let labels = vec![
            ("question", one.name.to_owned()),
            ("differs_in", one.rank.name().to_owned()),
            ("gpus", key.gpus.clone()),
            ("driver", key.driver.clone()),
            ("libcudart", key.libcudart.clone()),
            ("mig", key.mig.to_string()),
            ("shared", key.shared.to_string()),
            ("label", key.label.clone().unwrap_or_default()),
        ];
        of_questions.push((labels, one.these()));
    }
    for ((machine, rank), count) in of_machines {
        let labels = vec![
            ("machine", machine.to_owned()),
            ("differs_in", rank.to_owned()),
        ];
        samples.push(Sample::new("fleet_machine_differences", labels, count));
    }
    // Two outcomes of the same question in the same group share a series.
    for (labels, machines) in group_by_key(of_questions) {
        let machines: usize = machines.into_iter().sum();
        samples.push(Sample::new("fleet_question_differing", labels, machines));
    }
    samples
}
