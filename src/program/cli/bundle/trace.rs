//! A bundle of a trace: the trace, its summary and its page, the scenarios that prove what was found with their
//! reproducers, and the text.

use super::archive::{
    ArchiveFile, BundleArguments, attach_reproducers, host_redactor, instance_stem, write,
};
use crate::cli::output::{Outcome, fail};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_render::issue::Attached;
use cuda_pitfalls_render::trace::{TraceView, proving_scenarios};
use cuda_pitfalls_trace::diagnosis::{self, Severity};
use cuda_pitfalls_trace::policy::PolicyOutcome;
use cuda_pitfalls_trace::{Trace, TraceError, redact_line};

pub(super) fn bundle_trace(arguments: &BundleArguments) -> Outcome {
    if let Some(name) = &arguments.name {
        let why = format!(
            "`{name}`: a trace is packed whole; `export {name}` writes the reproducer of one scenario"
        );
        return Err(fail(why, Exit::Usage, false));
    }
    let (trace, text) = read(arguments).map_err(|error| fail(error, Exit::Usage, false))?;
    let (findings, outcome) = (diagnosis::findings(&trace), PolicyOutcome::default());
    let view = TraceView::new(&trace, &findings, &outcome);
    let proofs = proving_scenarios(&findings);
    let mut entries: Vec<ArchiveFile> = Vec::new();
    let attached = add_sources(&proofs, &mut entries);
    let texts = [
        ("summary.json", format!("{:#}\n", view.json())),
        ("trace.html", view.to_html()),
        (cuda_pitfalls_trace::FILE, text),
        ("issue.md", view.issue_text(&proofs, &attached)),
    ];
    entries.extend(texts.map(|(name, text)| ArchiveFile {
        name: name.to_owned(),
        text,
    }));
    let pitfall = findings
        .iter()
        .find(|finding| finding.severity == Severity::Pitfall);
    let stem = pitfall.map_or_else(
        || "trace".to_owned(),
        |finding| format!("trace-{}", instance_stem(&finding.rule)),
    );
    Ok(write(arguments, &stem, &entries))
}

/// The trace and its lines; redacted, if that was asked for, before anything is made of them.
fn read(arguments: &BundleArguments) -> Result<(Trace, String), TraceError> {
    let mut text = String::new();
    let mut redactor = host_redactor();
    cuda_pitfalls_trace::lines(&arguments.report, |line| {
        let line = if arguments.redact {
            redact_line(line, &mut redactor)
        } else {
            Ok(line)
        };
        text.push_str(&serde_json::to_string(&line?)?);
        text.push('\n');
        Ok(())
    })?;
    Ok((Trace::read(text.as_bytes(), &arguments.report)?, text))
}

/// The scenario files, and the reproducer of each in the languages that it can be written in.
fn add_sources(proofs: &[Scenario], entries: &mut Vec<ArchiveFile>) -> Vec<Attached> {
    let mut attached = Vec::new();
    for scenario in proofs {
        let Some(file) = catalogue::embedded_files().find(|file| file.name == scenario.name) else {
            continue;
        };
        entries.push(ArchiveFile {
            name: format!("{}.toml", instance_stem(&scenario.name)),
            text: file.source.to_string(),
        });
        let Some(instance) = scenario.instances.first() else {
            continue;
        };
        attach_reproducers(scenario, instance, entries, &mut attached);
    }
    attached
}
