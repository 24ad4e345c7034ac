//! A bundle of a report: the scenario files, reproducers, the reduced report, and the text.

use super::archive::{
    ArchiveFile, BundleArguments, attach_reproducer, host_redactor, instance_stem, write,
};
use crate::cli::output::{Outcome, fail};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::report::{ReportView, Stored, StoredReport};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Verdict};
use cuda_pitfalls_core::{catalogue, judge};
use cuda_pitfalls_render::issue::{self, Attached};
use cuda_pitfalls_render::tally::SIMULATED;
use cuda_pitfalls_render::with_words;

pub(super) fn bundle_report(arguments: &BundleArguments) -> Outcome {
    let mut report = open_report(arguments)?;
    keep_relevant(&mut report, arguments.name.as_deref());
    let stem = check_relevant(&report, arguments.name.as_deref())?;
    let mut entries = Vec::new();
    // They are built in, and contain nothing about this machine.
    let attached = add_sources(&report.view(), &mut entries);
    if report.view().provenance == Provenance::Simulated {
        entries.iter_mut().for_each(mark_simulated);
    }
    if arguments.redact {
        report = redact_report(&report).map_err(|error| {
            let why = format!("the redacted report cannot be read: {error}");
            fail(why, Exit::Internal, false)
        })?;
    }
    let document = serde_json::to_value(&report).map_err(|error| {
        let why = format!("the report cannot be written as JSON: {error}");
        fail(why, Exit::Internal, false)
    })?;
    entries.push(ArchiveFile {
        name: "report.json".into(),
        text: format!("{document:#}\n"),
    });
    entries.push(ArchiveFile {
        name: "issue.md".into(),
        text: issue::render_issue(&report.view(), &attached),
    });
    Ok(write(arguments, &stem, &entries))
}

/// Puts the banner of simulated results above a source file.
fn mark_simulated(entry: &mut ArchiveFile) {
    let banner = if entry.name.ends_with(".c") {
        format!("/* {SIMULATED} */\n")
    } else {
        format!("# {SIMULATED}\n")
    };
    entry.text.insert_str(0, &banner);
}

/// Returns the report that the bundle is made from, judged by today's rules.
fn open_report(arguments: &BundleArguments) -> Result<StoredReport, Exit> {
    let stored = Stored::open(&arguments.report).and_then(|stored| stored.report());
    let mut report = with_words(stored.map_err(|error| fail(error, Exit::Usage, false))?);
    if let StoredReport::Whole(whole) = &mut report {
        judge::rejudge(whole);
    }
    if !is_measured(&report.view()) {
        let why = "nothing was measured in this report";
        return Err(fail(why, Exit::NothingMeasured, false));
    }
    Ok(report)
}

/// Returns `true` if a scenario of the report was measured.
fn is_measured(view: &ReportView<'_>) -> bool {
    let mut scenarios = view.scenarios.iter();
    scenarios.any(|one| one.verdict.kind != Kind::Skipped)
}

/// Returns the name of the bundle.
///
/// # Errors
/// Returns an error if nothing that the bug report would cover was measured.
fn check_relevant(report: &StoredReport, name: Option<&str>) -> Result<String, Exit> {
    let view = report.view();
    let Some(first) = view.scenarios.first() else {
        let why = match name {
            Some(name) => {
                format!("this report has no scenario `{name}`; `cuda-pitfalls render REPORT` lists those that it has")
            }
            None => {
                "everything in this report is as expected; name the scenario that the bug report is about".to_string()
            }
        };
        return Err(fail(why, Exit::Usage, false));
    };
    if !is_measured(&view) {
        let why = format!("{} was not measured: {}", first.name, first.verdict.detail);
        return Err(fail(why, Exit::NothingMeasured, false));
    }
    if view.scenarios.len() == 1 {
        Ok(instance_stem(first.name))
    } else {
        Ok("unexpected".to_string())
    }
}

/// Keeps only what the bug report is about.
fn keep_relevant(report: &mut StoredReport, name: Option<&str>) {
    match report {
        StoredReport::Whole(whole) => {
            whole
                .scenarios
                .retain(|one| is_about(name, &one.name, &one.scenario, &one.verdict));
        }
        StoredReport::Compact(kept) => {
            kept.scenarios
                .retain(|one| is_about(name, &one.name, one.scenario(), &one.verdict));
        }
    }
}

/// Returns `true` if the bug report covers an instance: its name matches or, if no name is given, its verdict was
/// unexpected.
fn is_about(name: Option<&str>, instance: &str, scenario: &str, verdict: &Verdict) -> bool {
    match name {
        Some(name) => {
            instance == name || scenario == name || scenario.rsplit('/').next() == Some(name)
        }
        None => verdict.expectation == ExpectationMet::Unexpected,
    }
}

/// Returns the report without data that identifies its origin.
fn redact_report(report: &StoredReport) -> Result<StoredReport, serde_json::Error> {
    let mut document = serde_json::to_value(report)?;
    host_redactor().json(&mut document);
    Ok(match report {
        StoredReport::Whole(_) => StoredReport::Whole(serde_json::from_value(document)?),
        StoredReport::Compact(_) => StoredReport::Compact(serde_json::from_value(document)?),
    })
}

/// Returns the scenario files, and the reproducers of those that can be written.
fn add_sources(report: &ReportView<'_>, entries: &mut Vec<ArchiveFile>) -> Vec<Attached> {
    let mut attached = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for one in &report.scenarios {
        let Some(file) = catalogue::embedded_files().find(|file| file.name == one.scenario) else {
            continue;
        };
        let is_first = !told.contains(&one.name);
        if !told.contains(&one.scenario) {
            told.push(one.scenario);
            entries.push(ArchiveFile {
                name: format!("{}.toml", instance_stem(one.scenario)),
                text: file.source.to_string(),
            });
        }
        let Ok(scenarios) = catalogue::select_scenarios(&[one.scenario.to_owned()]) else {
            continue;
        };
        let found = scenarios.iter().find_map(|scenario| {
            let instance = scenario
                .instances
                .iter()
                .find(|instance| instance.name == one.name);
            instance.map(|instance| (scenario, instance))
        });
        // A scenario that ran on several libcudarts is in a report several times.
        let Some((scenario, instance)) = found else {
            continue;
        };
        if !is_first {
            continue;
        }
        told.push(one.name);
        attach_reproducer(scenario, instance, entries, &mut attached);
    }
    attached
}
