//! A file for the textfile collector of a Prometheus node exporter. Samples carry no time stamps, as the collector
//! wants it; the time of the run is a metric.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use cuda_pitfalls_core::report::{ReportView, ScenarioView};

use super::health::health;
use super::words::provenance;
use cuda_pitfalls_core::text::escape::prometheus;

/// One sample: its labels and its value.
pub(super) type Sample = (Vec<(&'static str, String)>, String);

/// The whole file.
pub fn report(report: &ReportView<'_>) -> String {
    let mut out = String::new();
    let scenarios = named(report);
    let verdicts = scenarios.iter().map(|(labels, scenario)| {
        let verdict = &scenario.verdict;
        let more = [
            ("verdict", verdict.kind.name().to_owned()),
            ("expectation", verdict.expectation.name().to_owned()),
            ("provenance", provenance(verdict.provenance).to_owned()),
        ];
        (with(labels, more), "1".to_owned())
    });
    family(&mut out, "scenario_verdict", "The verdict of a scenario; always 1.", verdicts);
    family(
        &mut out,
        "outcome_attempts",
        "Attempts of a case that ended in this outcome.",
        scenarios.iter().flat_map(outcomes),
    );
    family(
        &mut out,
        "case_used_bytes",
        "The change of largest size in used memory at any step of a case.",
        scenarios.iter().flat_map(used_bytes),
    );
    let complete = (Vec::new(), u8::from(report.complete).to_string());
    family(&mut out, "run_complete", "Whether the last run finished.", [complete]);
    let at = report.run.finished_at.as_ref().unwrap_or(&report.run.started_at);
    // A time that cannot be read is left out: zero would be a time.
    let at = at.parse::<jiff::Timestamp>().ok().map(|at| (Vec::new(), at.as_second().to_string()));
    family(&mut out, "last_run_timestamp_seconds", "When the last run ended, or began if it did not end.", at);
    let gpus = (Vec::new(), report.machine.gpus.len().to_string());
    family(&mut out, "gpus", "GPUs that NVML lists.", [gpus]);
    let (code, why) = health(report);
    let meaning = "0: as expected; 1: something is not, or a GPU or its driver is lost; 2: nothing can be said.";
    family(&mut out, "health", meaning, [(vec![("why", why)], code.to_string())]);
    let driver = report.machine.driver_version.clone().unwrap_or_default();
    let build = (vec![("version", report.run.version.clone()), ("driver", driver)], "1".to_owned());
    family(&mut out, "build_info", "The version of cuda-pitfalls and of the driver; always 1.", [build]);
    out
}

type Labels = Vec<(&'static str, String)>;

/// Every scenario with the labels that tell it from all others: a collector refuses a file in which
/// a series occurs twice, and one scenario may have run on several libcudarts.
fn named<'v, 'r>(report: &'v ReportView<'r>) -> Vec<(Labels, &'v ScenarioView<'r>)> {
    let mut seen: HashMap<(String, String), u32> = HashMap::new();
    let mut named = Vec::new();
    for scenario in &report.scenarios {
        let runtime = scenario.libcudart.as_ref();
        let mut version = runtime.and_then(|runtime| runtime.version.clone()).unwrap_or_default();
        let times = seen.entry((scenario.name.to_owned(), version.clone())).or_default();
        *times += 1;
        if *times > 1 {
            version = format!("{version}#{times}");
        }
        named.push((vec![("scenario", scenario.name.to_owned()), ("libcudart", version)], scenario));
    }
    named
}

fn with<const N: usize>(labels: &Labels, more: [(&'static str, String); N]) -> Labels {
    labels.iter().cloned().chain(more).collect()
}

/// Outcomes go by their place, most frequent first, so that the number of series stays bounded.
fn outcomes((labels, scenario): &(Labels, &ScenarioView<'_>)) -> Vec<Sample> {
    let mut samples = Vec::new();
    for case in &scenario.cases {
        let label = |outcome: String| with(labels, [("case", case.name.to_owned()), ("outcome", outcome)]);
        for (place, outcome) in case.outcomes.iter().enumerate() {
            samples.push((label(place.to_string()), outcome.count.to_string()));
        }
        let invalid = case.made.saturating_sub(case.outcomes.iter().map(|outcome| outcome.count as usize).sum());
        samples.push((label("not_counted".to_owned()), invalid.to_string()));
    }
    samples
}

fn used_bytes((labels, scenario): &(Labels, &ScenarioView<'_>)) -> Vec<Sample> {
    let Some(plan) = &scenario.plan else { return Vec::new() };
    let mut samples = Vec::new();
    for case in &scenario.cases {
        let Some(top) = case.outcomes.first() else { continue };
        let changes = top.largest_change();
        for uuid in &plan.gpus {
            let name = plan.gpu_name(uuid);
            let change = changes.iter().find(|(gpu, _)| Some(gpu) == name.as_ref()).and_then(|(_, bytes)| *bytes);
            if let Some(bytes) = change {
                samples
                    .push((with(labels, [("case", case.name.to_owned()), ("uuid", uuid.clone())]), bytes.to_string()));
            }
        }
    }
    samples
}

/// One metric: help, type and samples. The head is there even without samples, so that the metric is known.
pub(super) fn family(out: &mut String, name: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
    let _ = writeln!(out, "# HELP cuda_pitfalls_{name} {help}\n# TYPE cuda_pitfalls_{name} gauge");
    let mut seen = HashSet::new();
    for (labels, value) in samples {
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", prometheus(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        // One series given twice would cost the whole file; no report of ours does that.
        if seen.insert(labels.clone()) {
            let _ = writeln!(out, "cuda_pitfalls_{name}{labels} {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn samples_are_named_and_labelled() {
        let file = report(&fixture::report().view());
        for line in [
            "cuda_pitfalls_scenario_verdict{scenario=\"visibility/mask-after-count\",libcudart=\"13.0\",\
             verdict=\"reproduced\",expectation=\"as_expected\",provenance=\"measured\"} 1",
            "cuda_pitfalls_outcome_attempts{scenario=\"visibility/mask-after-count\",libcudart=\"13.0\",case=\"trap\",\
             outcome=\"0\"} 3",
            "cuda_pitfalls_case_used_bytes{scenario=\"visibility/mask-after-count\",libcudart=\"13.0\",case=\"trap\",\
             uuid=\"GPU-8b6c2f00-0000-4000-8000-00000000000a\"} 555745280",
            "cuda_pitfalls_run_complete 1",
            "cuda_pitfalls_health{why=\"1/4 unexpected: not_reproduced, context/set-device-makes-no-context\"} 1",
            "cuda_pitfalls_last_run_timestamp_seconds 1763654473",
            "cuda_pitfalls_build_info{version=\"0.1.0\",driver=\"580.159.04\"} 1",
        ] {
            assert!(file.lines().any(|found| found == line), "{line}\n{file}");
        }
        assert!(file.ends_with("} 1\n"));
    }

    #[test]
    fn no_series_occurs_twice_and_every_line_is_well_formed() {
        let mut twice = fixture::hostile();
        twice.scenarios.extend(twice.scenarios.clone());
        fixture::assert_metrics(&report(&twice.view()), "cuda_pitfalls_");
    }
}
