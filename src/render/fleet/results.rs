//! What programs are told of a fleet: metrics.

use std::collections::BTreeMap;

use super::standing;
use super::words;
use crate::machine::prometheus::{Sample, time, write_family, write_figure};
use crate::words::provenance;
use cuda_pitfalls_answers::fleet::{Fleet, Rank, outliers};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::counts::group_by_key;

/// Metrics. Machines that differ or are missing have series of their own; the others are counted, so that the number of
/// series does not grow with a fleet that is in order.
pub(super) fn write_metrics(fleet: &Fleet) -> String {
    let mut out = String::new();
    let expected = fleet.expected.as_ref();
    let counts = [
        (
            "machines",
            "Machines that sent something.",
            Some(fleet.machines.len()),
        ),
        (
            "groups",
            "Groups of machines that can be compared.",
            Some(standing::answer_groups(fleet).count()),
        ),
        (
            "machines_alone",
            "Machines that are alone in their group.",
            Some(standing::alone(fleet).len()),
        ),
        (
            "machines_expected",
            "Machines that were expected.",
            expected.map(|expected| expected.machines),
        ),
        (
            "machines_missing",
            "Machines that were expected and have no report.",
            expected.map(|expected| expected.missing.len()),
        ),
    ];
    for (name, help, count) in counts {
        write_figure(&mut out, &format!("fleet_{name}"), help, count);
    }
    let missing = fleet.expected.iter().flat_map(|expected| &expected.missing);
    let missing = missing.map(|name| (vec![("machine", name.clone())], "1".to_owned()));
    write_family(
        &mut out,
        "fleet_machine_missing",
        "A machine that is missing; always 1.",
        missing,
    );
    let broken = fleet.machines.iter().filter_map(|machine| {
        let labels = vec![
            ("machine", machine.name.clone()),
            ("reason", machine.no_cuda.clone()?),
        ];
        Some((labels, "1".to_owned()))
    });
    let broken: Vec<Sample> = broken.collect();
    write_figure(
        &mut out,
        "fleet_machines_without_cuda",
        "Machines on which CUDA does not start.",
        [broken.len()],
    );
    write_family(
        &mut out,
        "fleet_machine_without_cuda",
        "A machine on which CUDA does not start; always 1.",
        broken,
    );
    let left_out = fleet.machines.iter().filter_map(|machine| {
        let labels = vec![
            ("machine", machine.name.clone()),
            ("reason", word(machine.left_out?)),
        ];
        Some((labels, "1".to_owned()))
    });
    write_family(
        &mut out,
        "fleet_machine_left_out",
        "A machine of which every report is left out; always 1.",
        left_out,
    );
    let conflicts = fleet
        .machines
        .iter()
        .filter(|machine| !machine.conflicts.is_empty());
    let conflicts = conflicts.map(|machine| {
        (
            vec![("machine", machine.name.clone())],
            machine.conflicts.len().to_string(),
        )
    });
    write_family(
        &mut out,
        "fleet_machine_conflicts",
        "How many reports of a machine disagree with its latest.",
        conflicts,
    );
    let buckets = fleet
        .input
        .buckets
        .iter()
        .map(|(bucket, count)| (vec![("bucket", word(bucket))], count.to_string()));
    write_family(
        &mut out,
        "fleet_documents",
        "Documents that were read, by what became of them.",
        buckets,
    );
    let help = "Machines that answered fewer than nine in ten questions.";
    write_figure(
        &mut out,
        "fleet_machines_few_answers",
        help,
        [standing::few_answers(fleet).count()],
    );
    let help = "Machines with an unexpected verdict by their own reports.";
    write_figure(
        &mut out,
        "fleet_machines_unexpected",
        help,
        [standing::unexpected_machines(fleet)],
    );
    write_differences(&mut out, fleet);
    let input = &fleet.input;
    time(
        &mut out,
        "fleet_first_run_timestamp_seconds",
        "When the earliest merged run began.",
        input.from.as_ref(),
    );
    time(
        &mut out,
        "fleet_last_run_timestamp_seconds",
        "When the latest merged run began.",
        input.to.as_ref(),
    );
    let labels = vec![
        ("version", fleet.version.clone()),
        ("provenance", provenance(fleet.provenance).to_owned()),
    ];
    let help = "The version that merged, and who answered; always 1.";
    write_family(
        &mut out,
        "fleet_build_info",
        help,
        [(labels, "1".to_owned())],
    );
    out
}

fn write_differences(out: &mut String, fleet: &Fleet) {
    let told = words::in_words(fleet);
    let help = "Machines that differ from the others of their group.";
    write_figure(
        out,
        "fleet_machines_differing",
        help,
        [standing::count_differing(fleet, &told)],
    );
    let counts = Rank::ALL.map(|rank| {
        let count = told.iter().filter(|one| one.rank == rank).count();
        (
            vec![("differs_in", rank.name().to_owned())],
            count.to_string(),
        )
    });
    write_family(
        out,
        "fleet_differences",
        "Differences, by what differs.",
        counts,
    );
    let help = "Sets of machines that differ in the same things.";
    write_figure(out, "fleet_outliers", help, [outliers(fleet).len()]);
    let mut of_machines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in told.iter().filter(|one| !one.is_split) {
        for machine in &one.machines {
            *of_machines.entry((machine, one.rank.name())).or_default() += 1;
        }
    }
    let of_questions = told.iter().filter_map(|one| {
        let key = &fleet.groups.get(one.difference.group)?.key;
        let series = vec![
            ("question", one.name.to_owned()),
            ("differs_in", one.rank.name().to_owned()),
            ("gpus", key.gpus.clone()),
            ("driver", key.driver.clone()),
            ("libcudart", key.libcudart.clone()),
            ("mig", key.mig.to_string()),
            ("shared", key.shared.to_string()),
            ("label", key.label.clone().unwrap_or_default()),
        ];
        Some((series, one.these()))
    });
    let machines = of_machines
        .iter()
        .map(|((machine, rank), count)| -> Sample {
            (
                vec![
                    ("machine", (*machine).to_owned()),
                    ("differs_in", (*rank).to_owned()),
                ],
                count.to_string(),
            )
        });
    write_family(
        out,
        "fleet_machine_differences",
        "In how many questions a machine differs.",
        machines,
    );
    // Two outcomes of one question in one group are one series.
    let questions = group_by_key(of_questions).into_iter();
    let questions = questions
        .map(|(labels, machines)| (labels, machines.into_iter().sum::<usize>().to_string()));
    write_family(
        out,
        "fleet_question_differing",
        "How many machines of a group differ in a question.",
        questions,
    );
}
