//! A fleet for the textfile collector of a Prometheus node exporter.
//!
//! Machines that differ or are missing have series of their own; the others are counted, so that the number of
//! series does not grow with a fleet that is in order.

use std::collections::{BTreeMap, HashMap};

use crate::prometheus::{Sample, family};
use crate::words::provenance;
use cuda_pitfalls_answers::fleet::Fleet;

use super::{standing, words};
use cuda_pitfalls_answers::fleet::{Rank, causes};

/// A difference by its labels: the question, in what, and the group.
type Series<'a> = (&'a str, &'static str, [String; 3], [bool; 2]);

/// The whole file.
pub(super) fn fleet(fleet: &Fleet) -> String {
    let mut out = String::new();
    family(&mut out, "fleet_machines", "Machines of which a report was merged.", plain(fleet.machines.len()));
    family(&mut out, "fleet_groups", "Groups of machines that can be compared.", plain(fleet.groups.len()));
    let alone = words::alone(fleet).len();
    family(&mut out, "fleet_machines_alone", "Machines that are alone in their group.", plain(alone));
    let expected = fleet.expected.as_ref().map(|expected| (Vec::new(), expected.machines.to_string()));
    family(&mut out, "fleet_machines_expected", "Machines that were expected.", expected);
    let missing: Vec<&String> = fleet.expected.iter().flat_map(|expected| &expected.missing).collect();
    let count = fleet.expected.as_ref().map(|_| (Vec::new(), missing.len().to_string()));
    family(&mut out, "fleet_machines_missing", "Machines that were expected and have no report.", count);
    let missing_machine = |name: &&String| (vec![("machine", (*name).clone())], "1".to_owned());
    family(
        &mut out,
        "fleet_machine_missing",
        "A machine that is missing; always 1.",
        missing.iter().map(missing_machine),
    );
    let buckets = fleet
        .input
        .buckets
        .iter()
        .map(|(bucket, count)| (vec![("bucket", words::bucket_name(*bucket).to_owned())], count.to_string()));
    family(&mut out, "fleet_documents", "Documents that were read, by what became of them.", buckets);
    let few = plain(standing::few(fleet).count());
    family(&mut out, "fleet_machines_few_answers", "Machines that answered fewer than nine in ten questions.", few);
    let unexpected = plain(standing::unexpected_machines(fleet));
    let help = "Machines with an unexpected verdict by their own reports.";
    family(&mut out, "fleet_machines_unexpected", help, unexpected);
    differences(&mut out, fleet);
    let seconds = |text: &Option<String>| {
        let at = text.as_ref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        at.map(|at| (Vec::new(), at.as_second().to_string()))
    };
    let first = seconds(&fleet.input.from);
    family(&mut out, "fleet_first_run_timestamp_seconds", "When the earliest merged run began.", first);
    let last = seconds(&fleet.input.to);
    family(&mut out, "fleet_last_run_timestamp_seconds", "When the latest merged run began.", last);
    let labels = vec![("version", fleet.version.clone()), ("provenance", provenance(fleet.provenance).to_owned())];
    family(
        &mut out,
        "fleet_build_info",
        "The version that merged, and who answered; always 1.",
        [(labels, "1".to_owned())],
    );
    out
}

/// One sample without labels.
fn plain(value: usize) -> [Sample; 1] {
    [(Vec::new(), value.to_string())]
}

/// The families about what differs.
fn differences(out: &mut String, fleet: &Fleet) {
    let told = words::told(fleet);
    let differing = plain(words::differing(fleet, &told));
    family(out, "fleet_machines_differing", "Machines that differ from the others of their group.", differing);
    let counts = Rank::ALL.map(|rank| {
        let count = told.iter().filter(|one| one.rank == rank).count();
        (vec![("differs_in", rank.name().to_owned())], count.to_string())
    });
    family(out, "fleet_differences", "Differences, by what differs.", counts);
    let causes = plain(causes(fleet).len());
    family(out, "fleet_causes", "Differences by cause: those of the same machines that are alike are one.", causes);
    let mut of_machines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    // Two outcomes of one question in one group are one series.
    let mut of_questions: HashMap<Series<'_>, usize> = HashMap::new();
    let mut order: Vec<Series<'_>> = Vec::new();
    for one in &told {
        for machine in one.machines.iter().filter(|_| !one.is_split) {
            *of_machines.entry((machine, one.rank.name())).or_default() += 1;
        }
        let Some(group) = fleet.groups.get(one.difference.group) else { continue };
        let key = &group.key;
        let texts = [key.gpus.clone(), key.driver.clone(), key.libcudart.clone()];
        let series: Series<'_> = (one.name, one.rank.name(), texts, [key.mig, key.shared]);
        let known = of_questions.entry(series.clone()).or_insert(0);
        if *known == 0 {
            order.push(series);
        }
        *known += one.these();
    }
    let machines = of_machines.iter().map(|((machine, rank), count)| -> Sample {
        (vec![("machine", (*machine).to_owned()), ("differs_in", (*rank).to_owned())], count.to_string())
    });
    family(out, "fleet_machine_differences", "In how many questions a machine differs.", machines);
    let questions = order.iter().map(|series| -> Sample {
        let (name, rank, [gpus, driver, libcudart], [mig, shared]) = series;
        let labels = vec![
            ("question", (*name).to_owned()),
            ("differs_in", (*rank).to_owned()),
            ("gpus", gpus.clone()),
            ("driver", driver.clone()),
            ("libcudart", libcudart.clone()),
            ("mig", mig.to_string()),
            ("shared", shared.to_string()),
        ];
        (labels, of_questions.get(series).copied().unwrap_or_default().to_string())
    });
    family(out, "fleet_question_differing", "How many machines of a group differ in a question.", questions);
}
