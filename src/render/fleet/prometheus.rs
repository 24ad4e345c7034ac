//! A fleet for the textfile collector of a Prometheus node exporter.
//!
//! Machines that differ or are missing have series of their own; the others are counted, so that the number of
//! series does not grow with a fleet that is in order.

use std::collections::BTreeMap;

use crate::prometheus::{Sample, family};
use crate::words::provenance;
use cuda_pitfalls_answers::fleet::{Fleet, Rank, causes};

use super::{standing, words};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::counts::grouped;

pub(super) fn fleet(fleet: &Fleet) -> String {
    let mut out = String::new();
    let expected = fleet.expected.as_ref();
    let counts = [
        ("machines", "Machines of which a report was merged.", Some(fleet.machines.len())),
        ("groups", "Groups of machines that can be compared.", Some(fleet.groups.len())),
        ("machines_alone", "Machines that are alone in their group.", Some(words::alone(fleet).len())),
        ("machines_expected", "Machines that were expected.", expected.map(|expected| expected.machines)),
        (
            "machines_missing",
            "Machines that were expected and have no report.",
            expected.map(|expected| expected.missing.len()),
        ),
    ];
    for (name, help, count) in counts {
        family(&mut out, &format!("fleet_{name}"), help, count.map(plain));
    }
    let missing = fleet.expected.iter().flat_map(|expected| &expected.missing);
    let missing = missing.map(|name| (vec![("machine", name.clone())], "1".to_owned()));
    family(&mut out, "fleet_machine_missing", "A machine that is missing; always 1.", missing);
    let buckets = fleet.input.buckets.iter().map(|(bucket, count)| (vec![("bucket", word(bucket))], count.to_string()));
    family(&mut out, "fleet_documents", "Documents that were read, by what became of them.", buckets);
    let few = [plain(standing::few(fleet).count())];
    family(&mut out, "fleet_machines_few_answers", "Machines that answered fewer than nine in ten questions.", few);
    let unexpected = [plain(standing::unexpected_machines(fleet))];
    let help = "Machines with an unexpected verdict by their own reports.";
    family(&mut out, "fleet_machines_unexpected", help, unexpected);
    differences(&mut out, fleet);
    let seconds = |text: &Option<String>| {
        let at = text.as_ref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        at.map(|at| (Vec::new(), at.as_second().to_string()))
    };
    for (which, when, at) in [("first", "earliest", &fleet.input.from), ("last", "latest", &fleet.input.to)] {
        let help = format!("When the {when} merged run began.");
        family(&mut out, &format!("fleet_{which}_run_timestamp_seconds"), &help, seconds(at));
    }
    let labels = vec![("version", fleet.version.clone()), ("provenance", provenance(fleet.provenance).to_owned())];
    let help = "The version that merged, and who answered; always 1.";
    family(&mut out, "fleet_build_info", help, [(labels, "1".to_owned())]);
    out
}

fn plain(value: usize) -> Sample {
    (Vec::new(), value.to_string())
}

fn differences(out: &mut String, fleet: &Fleet) {
    let told = words::told(fleet);
    let differing = [plain(words::differing(fleet, &told))];
    family(out, "fleet_machines_differing", "Machines that differ from the others of their group.", differing);
    let counts = Rank::ALL.map(|rank| {
        let count = told.iter().filter(|one| one.rank == rank).count();
        (vec![("differs_in", rank.name().to_owned())], count.to_string())
    });
    family(out, "fleet_differences", "Differences, by what differs.", counts);
    let causes = [plain(causes(fleet).len())];
    family(out, "fleet_causes", "Differences by cause: those of the same machines that are alike are one.", causes);
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
        ];
        Some((series, one.these()))
    });
    let machines = of_machines.iter().map(|((machine, rank), count)| -> Sample {
        (vec![("machine", (*machine).to_owned()), ("differs_in", (*rank).to_owned())], count.to_string())
    });
    family(out, "fleet_machine_differences", "In how many questions a machine differs.", machines);
    // Two outcomes of one question in one group are one series.
    let questions = grouped(of_questions).into_iter();
    let questions = questions.map(|(labels, machines)| (labels, machines.into_iter().sum::<usize>().to_string()));
    family(out, "fleet_question_differing", "How many machines of a group differ in a question.", questions);
}
