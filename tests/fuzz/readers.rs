//! Every reader of bytes that others write, with the properties that must hold for any bytes: nothing panics; what was
//! read is written and read again as the same; a second judgment equals the first; less evidence decides nothing more;
//! and the properties of every format in [`forms`](super::forms). The fuzzer and the tests use the same readers.

use std::fmt::Debug;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cuda_pitfalls::bisect::Bisection;
use cuda_pitfalls::event::Event;
use cuda_pitfalls::examination::Examination;
use cuda_pitfalls::explain::{Explainer, Query};
use cuda_pitfalls::export::{Reproducer, write_reproducer};
use cuda_pitfalls::fleet::{self, DocumentPool, Fleet, Rule};
use cuda_pitfalls::known::Known;
use cuda_pitfalls::policy::{Policy, PolicyOutcome};
use cuda_pitfalls::releases::{self, EnvironmentDocument, Matrix};
use cuda_pitfalls::render::fleet::FleetForm;
use cuda_pitfalls::render::{self, Format, Prepared};
use cuda_pitfalls::report::{Report, Stored, StoredReport};
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::text::redact::Redactor;
use cuda_pitfalls::trace::fixture::lines;
use cuda_pitfalls::trace::{self, Trace};
use cuda_pitfalls::verdict::Provenance;
use cuda_pitfalls::visibility::{GpuSource, listed, mask_visibility};
use cuda_pitfalls::{cli, compare, diagnose_start, diagnosis, judge, scenario, simulated, tracer};
use cuda_pitfalls_answers::who::{HolderPolicy, list_holders};
use cuda_pitfalls_core::holding::HolderScan;
use cuda_pitfalls_instrument::{examiner, forwarding};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::forms::Forms;

/// Makes the formats of the document that it reads; `None` if it rejects the bytes.
pub(crate) type Reader = fn(&[u8], &mut Forms) -> Option<()>;

/// By the names of the folders of their corpora. Those whose bytes are a text in JSON or TOML come first.
pub(crate) const READERS: [(&str, Reader); 20] = [
    ("report", report),
    ("survey", survey),
    ("trace", trace),
    ("fleet", fleet),
    ("merge", merge),
    ("environment", environment),
    ("examination", examination),
    ("holders", holders),
    ("bisection", bisection),
    ("message", message),
    ("event", event),
    ("scenario", scenario),
    ("machine", machine),
    ("releases", releases),
    ("policy", policy),
    ("mask", mask),
    ("explain", explain),
    ("arguments", arguments),
    ("proc", proc),
    ("library", library),
];

/// Passes the path of a file that holds these bytes and is in memory.
fn file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    let mut file = fs::File::from(memfd_create("document", MemfdFlags::CLOEXEC).expect("memory"));
    file.write_all(bytes).expect("memory");
    read(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// Fails unless a document stays the same when it is written and read again.
fn keeps<T: Serialize + DeserializeOwned + PartialEq + Debug>(document: &T) {
    let written = serde_json::to_vec(document).expect("what was read can be written");
    let again: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert!(again == *document, "{document:#?} becomes {again:#?}");
}

fn report(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let stored = file(bytes, |path| Stored::open(path).ok()?.report().ok())?;
    match &stored {
        StoredReport::Compact(compact) => keeps(&**compact),
        StoredReport::Whole(whole) => {
            keeps(&**whole);
            let mut judged = (**whole).clone();
            judge::rejudge(&mut judged);
            let mut again = judged.clone();
            judge::rejudge(&mut again);
            assert!(again == judged, "a second judgment differs");
            decides_no_more(&judged, bytes.len());
        }
    }
    let compared =
        compare::reports(&stored.view(), &stored.view(), None).expect("a report and itself");
    assert_eq!(compared.changed, [], "a report differs from itself");
    forms.json(&compared);
    forms.add("text", || Some(render::compare::text(&compared, 100)));
    let prepared = Prepared::stored(stored);
    for format in Format::all() {
        forms.add(form_name(*format), || {
            render::render(&prepared, *format, 100)
        });
    }
    Some(())
}

/// Returns the group of checks for a format. A new format does not compile unless it is listed.
fn form_name(format: Format) -> &'static str {
    match format {
        Format::Text | Format::TextFull => "text",
        Format::Html => "html",
        Format::Markdown => "markdown",
        Format::Junit => "junit",
        Format::Prometheus => "prometheus",
        Format::Github => "github",
        Format::Sarif => "sarif",
        Format::Oci => "oci",
        Format::Compact => "json",
    }
}

/// Fails if a question without an answer has one once a part of what was recorded is gone. `chance` chooses the part.
fn decides_no_more(judged: &Report, chance: usize) {
    let index = chance % judged.scenarios.len().max(1);
    // Where attempts disagree, fewer of them may well agree.
    let Some(one) = judged
        .scenarios
        .get(index)
        .filter(|one| one.cases.iter().all(|case| case.outcomes.len() < 2))
    else {
        return;
    };
    let mut less = judged.clone();
    let case = chance / 2 % one.cases.len().max(1);
    let Some(case) = less.scenarios[index]
        .cases
        .get_mut(case)
        .filter(|case| !case.attempts.is_empty())
    else {
        return;
    };
    let attempt = chance / 3 % case.attempts.len();
    let recording = &mut case.attempts[attempt].recording;
    match chance % 7 {
        0 => recording.events.clear(),
        1 => recording
            .events
            .truncate(chance / 5 % (recording.events.len() + 1)),
        2 => recording.polling = None,
        3 => recording.snapshots.clear(),
        4 => drop(case.attempts.remove(attempt)),
        5 => less.run.calibration.clear(),
        _ => less.machine.gpus.clear(),
    }
    judge::rejudge(&mut less);
    for (before, after) in judged.scenarios.iter().zip(&less.scenarios) {
        let is_more = after.verdict.kind.is_conclusive() && !before.verdict.kind.is_conclusive();
        assert!(
            !is_more,
            "less evidence (part {}): {:?} becomes {:?}",
            chance % 7,
            before.verdict,
            after.verdict
        );
    }
}

fn survey(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let survey = file(bytes, |path| {
        SurveyDocument::from_stored(&Stored::open(path).ok()?)?.ok()
    })?;
    let written = serde_json::to_vec(&survey).expect("what was read can be written");
    assert!(SurveyDocument::parse(&written).expect("what was written can be read") == survey);
    let compared = compare::compare_surveys(&survey, &survey, None).expect("a survey and itself");
    assert_eq!(compared.changed, [], "a survey differs from itself");
    let _ = cuda_pitfalls::exit::Exit::from_survey(&survey);
    forms.json(&compared);
    for format in Format::all() {
        forms.add(form_name(*format), || {
            render::survey::as_format(&survey, *format, "survey.json", 100)
        });
    }
    Some(())
}

fn trace(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let path = Path::new("trace.ndjson");
    let mut trace = Trace::read(bytes, path).ok()?;
    let written: Vec<String> = lines(&trace)
        .iter()
        .map(|line| serde_json::to_string(line).expect("it can be written") + "\n")
        .collect();
    assert!(
        Trace::read(written.concat().as_bytes(), path).expect("what was written can be read")
            == trace
    );
    let mut redactor = Redactor::default();
    let redacted = lines(&trace)
        .into_iter()
        .map(|line| trace::redact_line(line, &mut redactor));
    assert!(redacted.flatten().count() == lines(&trace).len());
    let found = diagnosis::findings(&trace);
    let words = [
        "cuinit",
        "context",
        "stray",
        "fork",
        "error",
        "late-mask",
        "context:gpu0",
        "unattributed>64MiB",
    ];
    let forbid = words.map(str::to_owned);
    let everything = Policy::parse(&forbid, &["gpu0=1GiB".to_owned()]).expect("a policy");
    let outcome = everything.check(&trace, &found);
    let compared = compare::compare_traces([&trace, &trace], [&found, &found]);
    assert_eq!(compared.changed, [], "a trace differs from itself");
    forms.json(&compared);
    let view = render::trace::TraceView::new(&trace, &found, &outcome);
    let names = ["trace.ndjson", "/root"];
    for format in Format::all() {
        forms.add(form_name(*format), || view.as_format(*format, 100, names));
    }
    forms.json(view.json());
    // Cut short, it cannot show that something did not happen.
    trace.end = None;
    let found = diagnosis::findings(&trace);
    for word in words {
        let policy = Policy::parse(&[word.to_owned()], &[]).expect("a policy");
        let PolicyOutcome {
            violations,
            undecided,
        } = policy.check(&trace, &found);
        assert!(
            !violations.is_empty() || !undecided.is_empty(),
            "{word} is kept by a trace that was cut short"
        );
    }
    Some(())
}

fn fleet(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let fleet = file(bytes, |path| {
        Stored::open(path)
            .ok()?
            .parse_by(fleet::SCHEMA, Fleet::parse)
            .ok()
    })?;
    keeps(&fleet);
    let fleet = fleet.ranked();
    if let Ok(diff) = fleet::diff(&fleet, &fleet) {
        keeps(&diff);
        assert!(
            !diff.has_other_verdict() && diff.began.is_empty() && diff.machines_gone.is_empty(),
            "{diff:#?}"
        );
        forms.add("text", || Some(render::fleet::changes::text(&diff, 100)));
    }
    forms_of_fleet(&fleet, forms);
    Some(())
}

fn forms_of_fleet(fleet: &Fleet, forms: &mut Forms) {
    for (form, format) in [
        ("text", FleetForm::Text),
        ("html", FleetForm::Html),
        ("markdown", FleetForm::Markdown),
        ("prometheus", FleetForm::Prometheus),
        ("json", FleetForm::Json),
    ] {
        forms.add(form, || {
            render::fleet::render(fleet, format, 100, None).ok()
        });
    }
}

/// Merges documents, one per line, compressed or not.
fn merge(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let pool = DocumentPool::new(Rule {
        provenance: Provenance::Simulated,
        not_before: None,
        not_after: None,
        group_by: None,
    });
    file(bytes, |path| fleet::gather(&[path.to_path_buf()], &pool));
    let merged = fleet::merge(pool, None, |_| None);
    keeps(&merged);
    forms_of_fleet(&merged, forms);
    (!merged.machines.is_empty()).then_some(())
}

fn environment(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let document: EnvironmentDocument = file(bytes, |path| {
        Stored::open(path).ok()?.parse(releases::SCHEMA).ok()
    })?;
    keeps(&document);
    let matrix = Matrix::new(&[document]);
    for (form, format) in [
        ("text", Format::Text),
        ("html", Format::Html),
        ("markdown", Format::Markdown),
    ] {
        forms.add(form, || render::releases::as_format(&matrix, format));
    }
    Some(())
}

fn examination(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let examination: Examination = serde_json::from_slice(bytes).ok()?;
    keeps(&examination);
    let diagnosed = diagnose_start(&examination, &Known::embedded().needs);
    forms.add("text", || {
        Some(render::doctor::text(&examination, &diagnosed, 80))
    });
    forms.json(render::doctor::document(&examination, &diagnosed));
    Some(())
}

fn holders(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    held(&serde_json::from_slice(bytes).ok()?, forms);
    Some(())
}

fn held(scan: &HolderScan, forms: &mut Forms) {
    keeps(scan);
    let mut found = list_holders(scan);
    found.check(&[
        HolderPolicy::Holders,
        HolderPolicy::Leftover(1 << 20),
        HolderPolicy::Orphans,
        HolderPolicy::Idle(Duration::from_secs(1)),
    ]);
    for found in [&found, &found.redact()] {
        forms.add("text", || Some(render::who::text(found, 80)));
        for holder in &found.holders {
            forms.add("text", || {
                Some(render::who::process_text(found, holder, 80))
            });
        }
        forms.add("metrics", || Some(render::who::prometheus(found)));
        forms.json(found);
    }
}

fn bisection(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let bisection: Bisection = serde_json::from_slice(bytes).ok()?;
    keeps(&bisection);
    forms.add("text", || Some(render::bisect::text(&bisection, 80)));
    Some(())
}

/// Reads a message of the library in a traced program.
fn message(bytes: &[u8], _: &mut Forms) -> Option<()> {
    tracer::is_message(bytes).then_some(())
}

/// Reads the events of a worker, one per line, as an attempt of a report that is judged.
fn event(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let events: Vec<Event> = lines
        .map(|line| serde_json::from_slice(line).ok())
        .collect::<Option<_>>()?;
    events.iter().for_each(keeps);
    let text = include_bytes!("corpus/report/seed-one-question.json");
    let mut report: Report = serde_json::from_slice(text).expect("a seed is a report");
    let attempts = report
        .scenarios
        .iter_mut()
        .flat_map(|one| &mut one.cases)
        .flat_map(|case| &mut case.attempts);
    for recording in attempts.map(|attempt| &mut attempt.recording) {
        let of_first = |event: &Event| cuda_pitfalls::recording::ProcessEvent {
            process: None,
            event: event.clone(),
        };
        recording.events = events.iter().map(of_first).collect();
    }
    judge::rejudge(&mut report);
    let prepared = Prepared::Fresh(&report);
    forms.add("text", || render::render(&prepared, Format::TextFull, 100));
    forms.add("html", || render::render(&prepared, Format::Html, 100));
    Some(())
}

fn scenario(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let text = std::str::from_utf8(bytes).ok()?;
    match scenario::load_scenario("fuzz/file", "file.toml", text, &["spin", "grow_heap"]) {
        Err(errors) => {
            assert!(!errors.is_empty(), "it is refused without a reason");
            forms.add("text", || {
                Some(
                    errors
                        .iter()
                        .take(9)
                        .map(|one| one.render(text, false) + "\n")
                        .collect(),
                )
            });
            forms.add("text", || {
                Some(
                    errors
                        .iter()
                        .take(9)
                        .map(|one| one.line(text) + "\n")
                        .collect(),
                )
            });
            None
        }
        Ok(scenario) => {
            assert!(
                scenario::load_scenario("fuzz/file", "file.toml", text, &["spin", "grow_heap"])
                    .as_ref()
                    == Ok(&scenario)
            );
            forms.add("text", || Some(render::listing::show::text(&scenario, 100)));
            let instance = scenario.instances.first()?;
            let written = Reproducer::new(&scenario, instance, "file")
                .and_then(|program| write_reproducer(&program));
            forms.add("program", || {
                Some(written.unwrap_or_else(|refusal| refusal.to_string()))
            });
            Some(())
        }
    }
}

fn machine(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let made = simulated::flatten("machine.toml", std::str::from_utf8(bytes).ok()?, None);
    let is_read = made.is_ok().then_some(());
    forms.add("text", || {
        Some(made.unwrap_or_else(|error| error.to_string()))
    });
    is_read
}

/// Reads the list of environments of `survey python --environments`, and a list of expected machines.
fn releases(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let text = std::str::from_utf8(bytes).ok()?;
    let _ = fleet::names(text);
    let list = releases::read("list.toml", text);
    let is_read = list.is_ok().then_some(());
    forms.add("text", || {
        list.err().map(|error| {
            error
                .diagnostics
                .iter()
                .map(|one| one.render(text, false))
                .collect()
        })
    });
    is_read
}

fn policy(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let text = std::str::from_utf8(bytes).ok()?;
    let lines = text.lines().map(str::to_owned);
    let (bounds, words): (Vec<String>, Vec<String>) =
        lines.partition(|line| line.starts_with("gpu"));
    match Policy::parse(&words, &bounds) {
        Ok(_) => Some(()),
        Err(error) => {
            forms.add("text", || Some(error.to_string()));
            None
        }
    }
}

/// Reads a mask, an order, and a list of GPUs, one after the other.
fn mask(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(3, '\n').map(str::to_owned);
    let (mask, order) = (lines.next(), lines.next());
    let gpus = listed(&lines.next().unwrap_or_default()).ok()?;
    let count = gpus.len();
    let answer = mask_visibility(
        mask,
        order,
        GpuSource::File {
            path: "gpus.txt".to_owned(),
        },
        gpus,
    );
    assert!(
        answer.visible.len() <= count,
        "more GPUs are visible than there are"
    );
    forms.json(&answer);
    forms.add("text", || Some(render::visibility::text(&answer, 80)));
    Some(())
}

fn explain(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    let text = String::from_utf8_lossy(bytes);
    for query in [Query::parse(&text), Query::parse_pasted(&text)] {
        let found = Explainer::embedded().explain(query);
        forms.add("text", || {
            Some(render::explain::text(&found, Default::default(), 80))
        });
        forms.json(render::explain::document(&found));
    }
    Some(())
}

fn arguments(bytes: &[u8], _: &mut Forms) -> Option<()> {
    let text = String::from_utf8_lossy(bytes);
    let arguments: Vec<String> = std::iter::once("cuda-pitfalls")
        .chain(text.lines())
        .map(str::to_owned)
        .collect();
    cli::is_understood(&arguments).then_some(())
}

/// A reading of all holders of a machine.
const READING: &[u8] = include_bytes!("corpus/holders/seed-simulated.json");

/// Separator of the files of a process in the bytes.
const NEXT: &[u8] = b"\n====\n";

/// Reads the files of a process in `/proc`, and the first library in its map.
fn proc(bytes: &[u8], forms: &mut Forms) -> Option<()> {
    thread_local!(static FOLDER: tempfile::TempDir = folder());
    let mut files = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(NEXT.len()).position(|window| window == NEXT) {
        files.push(&rest[..at]);
        rest = &rest[at + NEXT.len()..];
    }
    files.push(rest);
    FOLDER.with(|folder| {
        let names = [
            "status",
            "environ",
            "maps",
            "comm",
            "root/lib/libc.so.6",
            "mem",
        ];
        for (index, name) in names.iter().enumerate() {
            fs::write(
                folder.path().join(name),
                files.get(index).unwrap_or(&&b""[..]),
            )
            .expect("a file of ours");
        }
        let mut scan: HolderScan = serde_json::from_slice(READING).expect("a reading");
        scan.processes = vec![examiner::process_in(folder.path())];
        held(&scan, forms);
    });
    Some(())
}

fn folder() -> tempfile::TempDir {
    let shared = PathBuf::from("/dev/shm");
    let parent = if shared.is_dir() {
        shared
    } else {
        std::env::temp_dir()
    };
    let folder = tempfile::tempdir_in(parent).expect("a folder of ours");
    fs::create_dir_all(folder.path().join("root/lib")).expect("a folder of ours");
    std::os::unix::fs::symlink("/bin/program", folder.path().join("exe")).expect("a link of ours");
    folder
}

/// Reads a shared library, as a traced program or a machine has it.
fn library(bytes: &[u8], _: &mut Forms) -> Option<()> {
    let exported = file(bytes, |path| forwarding::library_exports(path).ok());
    let mut copy = bytes.to_vec();
    let left_out = forwarding::leave_out(&mut copy, &Default::default()).is_ok();
    assert_eq!(copy.len(), bytes.len());
    exported.filter(|_| left_out).map(drop)
}

/// Returns `true` if a reader accepts these bytes. Fails if a check does not hold.
pub(crate) fn holds(read: Reader, bytes: &[u8], mut forms: Forms) -> bool {
    let is_read = read(bytes, &mut forms).is_some();
    forms.check(bytes.len());
    is_read
}
