//! Committed traces of real programs: measured, whole, and today's rules find in them what
//! `tests/traces.txt` says.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::{bless, evidence, root};
use cuda_pitfalls::trace::{FILE, Trace, What, contexts};
use cuda_pitfalls::verdict::Provenance;
use cuda_pitfalls::{diagnosis, policy, render};

/// The folders of committed traces, by name.
fn committed() -> Vec<PathBuf> {
    let of_trace = |file: &PathBuf| file.starts_with(root().join("reports/traces")) && file.ends_with(FILE);
    let files = evidence().into_iter().filter(of_trace);
    files.filter_map(|file| file.parent().map(Path::to_path_buf)).collect()
}

#[test]
fn committed_traces_show_what_they_showed() {
    let mut said = String::new();
    let traces = committed();
    assert!(traces.len() >= 31, "{traces:?}");
    for folder in traces {
        let name = folder.strip_prefix(root().join("reports/traces")).expect("below").to_string_lossy().into_owned();
        let trace = Trace::open(&folder).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(trace.start.provenance, Provenance::Measured, "{name}");
        assert!(trace.end.is_some(), "{name} is not whole");
        let hooked = trace.events.iter().filter_map(|event| match event.what {
            What::MaskRead { after_hook, .. } => Some(after_hook),
            _ => None,
        });
        let hooked: Vec<bool> = hooked.collect();
        assert!(hooked.iter().all(|after| *after), "{name}: the mask was read before the hook");
        let saw_less = trace.end.as_ref().is_some_and(|end| !end.not_seen.is_empty());
        assert!(saw_less || !hooked.is_empty(), "{name}: nothing was seen, and the trace does not say so");
        let _ = writeln!(said, "{name}");
        for life in contexts(&trace) {
            let frame = life.made.stack.users().or_else(|| life.made.stack.users_meanwhile());
            let line = frame.and_then(|frame| frame.line()).unwrap_or_else(|| "no line of the program".to_owned());
            let mib = life.bytes.map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20));
            let _ = writeln!(said, "    context of {mib:.2} MiB at {line}, unused: {}", life.is_unused());
        }
        let findings = diagnosis::findings(&trace);
        for finding in &findings {
            let _ = writeln!(said, "    {}: {}", finding.rule, finding.says);
        }
        // Every form of it can be made.
        let outcome = policy::Outcome::default();
        for text in [
            render::trace::text(&trace, &findings, &outcome, 80),
            render::trace::html(&trace, &findings, &outcome),
            render::trace::markdown(&trace, &findings, &outcome),
        ] {
            assert!(!text.contains("SIMULATED") && text.len() > 100, "{name}: {text}");
        }
    }
    let path = root().join("tests/traces.txt");
    if bless() {
        fs::write(&path, &said).expect("it can be written");
        return;
    }
    assert_eq!(said, fs::read_to_string(&path).unwrap_or_default(), "CUDA_PITFALLS_BLESS=1 writes it anew");
}
