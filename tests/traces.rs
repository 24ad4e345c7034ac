//! Committed traces of real programs: measured, complete, and today's rules find in them what `tests/traces.txt` lists.

use crate::common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::{bless, evidence, root};
use cuda_pitfalls::diagnosis::{Finding, WorkaroundRun, embedded_rules, findings};
use cuda_pitfalls::known::{Known, KnownKind};
use cuda_pitfalls::policy::Policy;
use cuda_pitfalls::text::escape;
use cuda_pitfalls::trace::{EventKind, FILE, History, Trace};
use cuda_pitfalls::verdict::Provenance;
use cuda_pitfalls::{compare, diagnosis, policy, render::Format, render::trace::TraceView};
use serde_json::Value;

/// Programs that do not initialize CUDA.
const WITHOUT_CUDA: [&str; 3] = ["count_by_nvml", "jax_cpu", "no_cuda"];

/// Returns the directories of committed traces, by name.
fn committed() -> Vec<PathBuf> {
    let of_trace =
        |file: &PathBuf| file.starts_with(root().join("reports/traces")) && file.ends_with(FILE);
    let files = evidence().into_iter().filter(of_trace);
    files
        .filter_map(|file| file.parent().map(Path::to_path_buf))
        .collect()
}

/// Writes the summary of `trace --json`, a line for each process, context and finding.
fn pinned(said: &mut String, summary: &Value) {
    let at = |value: &Value| match &value["at"] {
        Value::Null => "no line of the program".to_owned(),
        at => format!("{}:{}", at["file"].as_str().unwrap_or("?"), at["line"]),
    };
    let list = |key: &str| summary[key].as_array().expect("a list").iter();
    let _ = writeln!(
        said,
        "    exit {}, complete: {}",
        summary["exit"], summary["complete"]
    );
    for process in list("processes") {
        let (name, initialised) = (
            process["name"].as_str().unwrap_or("?"),
            &process["initialised"],
        );
        let mask = process
            .get("mask")
            .map_or("not seen".to_owned(), |mask| mask["value"].to_string());
        let _ = writeln!(
            said,
            "    process {name}, initialised: {initialised}, mask: {mask}"
        );
    }
    for context in list("contexts") {
        let mib = context["bytes"]
            .as_i64()
            .map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20));
        let (gpu, used, ended) = (&context["index"], &context["used"], &context["ended"]);
        let _ = writeln!(
            said,
            "    context of {mib:.2} MiB on GPU {gpu} at {}, used: {used}, ended: {ended}",
            at(context)
        );
    }
    for finding in list("findings") {
        let [severity, rule, says] =
            ["severity", "rule", "says"].map(|key| finding[key].as_str().unwrap_or("?"));
        let _ = writeln!(said, "    {severity} {rule} at {}: {says}", at(finding));
    }
    for line in list("not_seen") {
        let _ = writeln!(said, "    not seen: {}", line.as_str().unwrap_or("?"));
    }
}

#[test]
fn committed_traces_show_what_they_showed() {
    let mut said = String::new();
    let traces = committed();
    assert!(traces.len() >= 31, "{traces:?}");
    for folder in traces {
        let name = folder
            .strip_prefix(root().join("reports/traces"))
            .expect("below")
            .to_string_lossy()
            .into_owned();
        let trace = Trace::open(&folder).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(trace.start.provenance, Provenance::Measured, "{name}");
        assert!(trace.end.is_some(), "{name} is not whole");
        let hooked = trace.events.iter().filter_map(|event| match event.what {
            EventKind::MaskRead { after_hook, .. } => Some(after_hook),
            _ => None,
        });
        let hooked: Vec<bool> = hooked.collect();
        assert!(
            hooked.iter().all(|after| *after),
            "{name}: the mask was read before the hook"
        );
        let saw_less = trace
            .end
            .as_ref()
            .is_some_and(|end| !end.not_seen.is_empty());
        let uses_cuda = !WITHOUT_CUDA
            .iter()
            .any(|program| name.ends_with(&format!("/{program}")));
        assert!(
            saw_less || uses_cuda != hooked.is_empty(),
            "{name}: nothing was seen, and the trace does not say so"
        );
        let _ = writeln!(said, "{name}");
        let findings = diagnosis::findings(&trace);
        pinned(
            &mut said,
            &TraceView::new(&trace, &findings, &policy::PolicyOutcome::default()).json(),
        );
    }
    let path = root().join("tests/traces.txt");
    if bless() {
        fs::write(&path, &said).expect("it can be written");
        return;
    }
    assert_eq!(
        said,
        fs::read_to_string(&path).unwrap_or_default(),
        "CUDA_PITFALLS_BLESS=1 writes it anew"
    );
}

/// Returns the finding without its process, because the output merges equal findings of several processes.
fn nameless(finding: &Finding) -> String {
    finding.says.replace(&format!("pid {}", finding.pid), "pid")
}

/// The terminal, the page, the summary, `compare` and a policy agree on one trace.
#[test]
fn all_readers_of_a_committed_trace_agree() {
    let outcome = policy::PolicyOutcome::default();
    for folder in committed() {
        let name = folder.display();
        let trace = Trace::open(&folder).unwrap_or_else(|error| panic!("{error}"));
        let found = findings(&trace);
        let view = TraceView::new(&trace, &found, &outcome);
        let text = view
            .as_format(Format::Text, 10_000, ["", ""])
            .expect("a text");
        let (html, json) = (view.to_html(), view.json());
        assert!(!text.contains("SIMULATED"), "{name}: {text}");
        let list = |key: &str| {
            json[key]
                .as_array()
                .unwrap_or_else(|| panic!("{key} is no list"))
        };

        // Findings, with their workarounds.
        let told: Vec<(&str, &str, &str)> = list("findings")
            .iter()
            .map(|it| {
                ["rule", "says", "workaround"]
                    .map(|key| it[key].as_str().expect("text"))
                    .into()
            })
            .collect();
        assert_eq!(
            told,
            found
                .iter()
                .map(|it| (&*it.rule, &*it.says, &*it.workaround))
                .collect::<Vec<_>>(),
            "{name}"
        );
        for finding in &found {
            let alike: Vec<&Finding> = found
                .iter()
                .filter(|other| nameless(other) == nameless(finding))
                .collect();
            for (form, shown) in [("text", &text), ("html", &html)] {
                let has = |words: &str| {
                    shown.contains(words) || shown.contains(&escape::escape_html(words))
                };
                let is_told = alike.iter().any(|it| has(&it.says));
                // The workaround of a note is only on the page.
                let has_workaround = has(&finding.workaround)
                    || (form == "text" && finding.severity == diagnosis::Severity::Note);
                assert!(
                    is_told && has_workaround,
                    "{name}, {form}: {finding:#?}\n{shown}"
                );
            }
        }
        let is_clean = found
            .iter()
            .all(|finding| finding.severity == diagnosis::Severity::Note);
        assert_eq!(
            text.contains("no pitfall found"),
            is_clean && !trace.events.is_empty(),
            "{name}: {text}"
        );

        // Contexts, and whether they were used.
        let lives = History::new(&trace).contexts;
        let shown = list("contexts");
        assert_eq!(shown.len(), lives.len(), "{name}");
        for (life, shown) in lives.iter().zip(shown) {
            assert_eq!(
                shown["used"].as_bool().map(|used| !used),
                life.uses.map(|uses| uses.is_none()),
                "{name}"
            );
            assert_eq!(
                (shown["bytes"].as_i64(), shown["gpu"].as_str()),
                (life.bytes, life.created.gpu.as_deref()),
                "{name}"
            );
        }
        let unused = lives.iter().any(|life| life.is_unused());
        for shown in [&text, &html] {
            assert_eq!(
                shown.contains("never used afterwards"),
                unused,
                "{name}: {shown}"
            );
        }

        // The mask that each process got.
        for process in list("processes") {
            let mask = process
                .get("mask")
                .map(|mask| mask["value"].as_str().unwrap_or("(unset)"));
            let (initialised, mask) = (process["initialised"] == true, mask.unwrap_or("not seen"));
            let words = format!("was read as {mask}");
            assert!(
                !initialised
                    || mask.is_empty()
                    || [&text, &html].iter().all(|shown| shown.contains(&words)),
                "{name}: {words}\n{text}"
            );
        }

        // A policy: each finding is a violation of its rule, each context of `context`.
        let violations = |word: &str| {
            let policy = Policy::parse(&[word.to_owned()], &[]).expect("a word that is known");
            policy.check(&trace, &found)
        };
        for rule in embedded_rules() {
            let says = violations(&rule.name)
                .violations
                .into_iter()
                .map(|it| it.says);
            let of_rule = found
                .iter()
                .filter(|it| it.rule == rule.name)
                .map(|it| it.says.clone());
            assert_eq!(
                says.collect::<Vec<_>>(),
                of_rule.collect::<Vec<_>>(),
                "{name}"
            );
        }
        assert_eq!(
            violations("context").violations.len(),
            lives.len(),
            "{name}"
        );
        let open = found.iter().any(|finding| {
            finding
                .leaves_open()
                .iter()
                .any(|rule| rule == "fork-after-init")
        });
        let fork = violations("fork");
        assert!(!open || !fork.is_kept(), "{name}");

        // A comparison: the trace is equal to itself, and each finding that one side lacks is a difference.
        let same = compare::compare_traces([&trace, &trace], [&found, &found]);
        assert!(
            same.changed.is_empty() && same.explained.is_empty(),
            "{name}: {same:#?}"
        );
        let mut lacking: Vec<String> = found.iter().map(|finding| finding.rule.clone()).collect();
        lacking.sort();
        lacking.dedup();
        for rule in lacking {
            let others: Vec<Finding> = found
                .iter()
                .filter(|finding| finding.rule != rule)
                .cloned()
                .collect();
            let less = compare::compare_traces([&trace, &trace], [&found, &others]);
            let differs = less
                .changed
                .iter()
                .chain(&less.explained)
                .any(|it| it.name.contains(&rule));
            assert!(differs, "{name}: {rule} is not in {less:#?}");
        }
    }
}

#[test]
fn a_program_that_shows_a_workaround_does_not_have_the_finding() {
    for folder in committed() {
        let program = folder
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let found = findings(&Trace::open(&folder).unwrap_or_else(|error| panic!("{error}")));
        for rule in embedded_rules() {
            let run = WorkaroundRun::Program(program.clone());
            let mut shown = rule.shown.iter();
            let Some((framework, _)) = shown.find(|(_, runs)| runs.contains(&run)) else {
                continue;
            };
            let finding = found.iter().find(|finding| finding.rule == rule.name);
            assert!(
                finding.is_none(),
                "{}: the workaround of {} in {framework} did not help: {finding:#?}",
                folder.display(),
                rule.name
            );
        }
    }
}

#[test]
fn the_variables_that_cuinit_reads_are_those_that_the_survey_measured() {
    let variables = Known::embedded()
        .entries
        .iter()
        .filter(|entry| entry.kind == KnownKind::Variable);
    let at_init = variables.filter(|entry| entry.sentence.contains(" is read at cuInit; "));
    let mut measured: Vec<&str> = at_init.map(|entry| entry.names[0].as_str()).collect();
    let mut listed: Vec<&str> = cuda_pitfalls::trace::history::read_by_cuinit().collect();
    measured.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, measured);
}
