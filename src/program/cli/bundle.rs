//! `bundle`: one archive for a bug report.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::output::{fail, print, put_new};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::export::{Language, Reproducer, plain, reproducer};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::report::{ReportView, Stored, StoredReport};
use cuda_pitfalls_core::scenario::{Instance, Scenario};
use cuda_pitfalls_core::text::redact::Redactor;
use cuda_pitfalls_core::verdict::{ExpectationMet, Verdict};
use cuda_pitfalls_render::issue::{self, Attached, Tracker};
use cuda_pitfalls_render::worded;

#[derive(Debug, clap::Args)]
pub(super) struct BundleArguments {
    /// A report, or the folder of a run.
    report: PathBuf,
    /// A scenario or an instance of it; everything that was not as expected if this is left out.
    name: Option<String>,
    /// Replace UUIDs, PCI addresses, paths, and the names of host and user, each always by the same.
    #[arg(long)]
    redact: bool,
    /// Fill in the fields of this project's bug template.
    #[arg(long, value_enum, value_name = "TEMPLATE")]
    issue: Option<Tracker>,
    /// The archive; by default named after what it is about, in this folder.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A file of the archive.
struct ArchiveFile {
    name: String,
    text: String,
}

pub(super) fn bundle(arguments: &BundleArguments) -> Exit {
    let mut report = match Stored::open(&arguments.report).and_then(|stored| stored.report()) {
        Ok(report) => worded(report),
        Err(error) => return fail(error, Exit::Usage, false),
    };
    reduce(&mut report, arguments.name.as_deref());
    let view = report.view();
    let Some(first) = view.scenarios.first() else {
        let why = match &arguments.name {
            Some(name) => {
                format!("this report has no scenario `{name}`; `cuda-pitfalls render REPORT` lists those that it has")
            }
            None => {
                "everything in this report is as expected; name the scenario that the bug report is about".to_string()
            }
        };
        return fail(why, Exit::Usage, false);
    };
    let stem = if view.scenarios.len() == 1 { stem(first.name) } else { "unexpected".to_string() };
    let path = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("cuda-pitfalls-{stem}.tar.gz")));
    let mut entries = Vec::new();
    // They come with the program, and say nothing of this machine.
    let attached = sources(&view, &mut entries);
    if arguments.redact {
        report = match redacted(&report) {
            Ok(redacted) => redacted,
            Err(error) => return fail(format!("the redacted report cannot be read: {error}"), Exit::Internal, false),
        };
    }
    let document = serde_json::to_value(&report).unwrap_or_default();
    entries.push(ArchiveFile { name: "report.json".into(), text: format!("{document:#}\n") });
    let issue = issue::issue(&report.view(), &attached, arguments.issue);
    entries.push(ArchiveFile { name: "issue.md".into(), text: issue });
    match put_new(&path, |file| pack(file, &stem, &entries)) {
        Ok(()) => {
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            let note = if arguments.redact { "" } else { "\nIt has UUIDs of GPUs and paths; --redact replaces them." };
            print(&format!("{}: {}{note}\n", path.display(), names.join(", ")))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fail(format!("{} is there already; name another with --out", path.display()), Exit::Usage, false)
        }
        Err(error) => fail(format!("cannot write {}: {error}", path.display()), Exit::NotDurable, false),
    }
}

/// Keeps what the bug report is about.
fn reduce(report: &mut StoredReport, name: Option<&str>) {
    let is_kept = |instance: &str, scenario: &str, verdict: &Verdict| match name {
        Some(name) => instance == name || scenario == name || scenario.rsplit('/').next() == Some(name),
        None => verdict.expectation == ExpectationMet::Unexpected,
    };
    match report {
        StoredReport::Whole(whole) => whole.scenarios.retain(|one| is_kept(&one.name, &one.scenario, &one.verdict)),
        StoredReport::Compact(kept) => kept.scenarios.retain(|one| is_kept(&one.name, one.scenario(), &one.verdict)),
    }
}

/// The same report without what tells where it was made.
fn redacted(report: &StoredReport) -> Result<StoredReport, serde_json::Error> {
    let mut document = serde_json::to_value(report)?;
    Redactor::new(&host(), &user()).json(&mut document);
    Ok(match report {
        StoredReport::Whole(_) => StoredReport::Whole(serde_json::from_value(document)?),
        StoredReport::Compact(_) => StoredReport::Compact(serde_json::from_value(document)?),
    })
}

/// The scenario files, and a reproducer in each language that they can be written in.
fn sources(report: &ReportView<'_>, entries: &mut Vec<ArchiveFile>) -> Vec<Attached> {
    let mut attached = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for one in &report.scenarios {
        let Some(file) = catalogue::embedded().find(|file| file.name == one.scenario) else { continue };
        let is_first = !told.contains(&one.name);
        if !told.contains(&one.scenario) {
            told.push(one.scenario);
            entries.push(ArchiveFile { name: format!("{}.toml", stem(one.scenario)), text: file.source.to_string() });
        }
        let Ok(scenarios) = catalogue::select(&[one.scenario.to_owned()]) else { continue };
        let found = scenarios.iter().find_map(|scenario| {
            let instance = scenario.instances.iter().find(|instance| instance.name == one.name);
            instance.map(|instance| (scenario, instance))
        });
        // A scenario that ran on several libcudarts is in a report several times.
        let Some((scenario, instance)) = found.filter(|_| is_first) else { continue };
        told.push(one.name);
        for language in [Language::Python, Language::C] {
            for is_plain in [true, false] {
                let Some(written) = attach(scenario, instance, language, is_plain) else { continue };
                entries.push(ArchiveFile { name: written.file.clone(), text: written.text.clone() });
                attached.push(written);
            }
        }
    }
    attached
}

fn attach(scenario: &Scenario, instance: &Instance, language: Language, is_plain: bool) -> Option<Attached> {
    let program = Reproducer::of(scenario, instance, None).ok()?;
    let form = if is_plain { plain } else { reproducer };
    let text = form(&program, language).ok()?;
    let stem = stem(&instance.name) + if is_plain { "-plain" } else { "" };
    let file = format!("{stem}.{}", language.extension());
    let commands = match language {
        Language::Python => vec![format!("python3 {file}")],
        Language::C => vec![program.compile_line(&file, &stem), format!("./{stem}")],
    };
    let language = if language == Language::C { "c" } else { "python" };
    Some(Attached { instance: instance.name.clone(), file, commands, language, is_plain, text })
}

/// The last part of a name, as a file may be called: a name of nothing is that of a scenario.
fn stem(name: &str) -> String {
    let name = if name.ends_with('/') || name.is_empty() { "scenario" } else { name };
    let (path, values) = name.split_once('[').map_or((name, ""), |(path, values)| (path, values));
    let last = path.rsplit('/').next().unwrap_or(path);
    let letters = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect()
    };
    let values = letters(values.trim_end_matches(']'));
    let values = values.trim_matches('-');
    if values.is_empty() { letters(last) } else { format!("{}-{values}", letters(last)) }
}

fn pack(file: &mut File, folder: &str, entries: &[ArchiveFile]) -> io::Result<()> {
    let packed = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    let mut archive = tar::Builder::new(packed);
    for ArchiveFile { name, text } in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{folder}/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish().map(drop)
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn user() -> String {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default()
}
