//! What the rules find, and what a policy says, in traces of real processes on the simulated machine: those of the programs in
//! `tests/traced`.

use crate::common;

use std::fs;

use common::traced::{Node, has, lines_of, traced};
use common::{Scratch, root};
use cuda_pitfalls::diagnosis::{Severity, findings};
use cuda_pitfalls::policy::{Policy, PolicyOutcome};
use cuda_pitfalls::trace::Trace;

/// A program, and the pitfall that a trace of it has, with the label of the line that is at fault; none if it has none.
const PROGRAMS: &[(&str, Option<(&str, &str)>)] = &[
    ("late_mask.py", Some(("late-mask", "written"))),
    ("late_mask.c", Some(("late-mask", "written"))),
    ("stray_context.py", Some(("stray-context", "stray"))),
    ("guard.py", Some(("guard-restores-device", "exit"))),
    ("fork_after_init.py", Some(("fork-after-init", "child"))),
    ("pinned.py", Some(("pinned-memory-context", "pin"))),
    ("late_limit.py", Some(("limit-after-launch", "late"))),
    ("threads.py", Some(("context-on-every-gpu", "context"))),
    ("silent_fork.py", None),
    ("many_children.py", None),
    ("no_cuda.py", None),
    ("no_cuda.c", None),
];

fn is_there(name: &str) -> bool {
    has(if name.ends_with(".py") { "python3" } else { "cc" })
}

/// The trace of a program.
fn trace(name: &str) -> Trace {
    let (scratch, node) = (Scratch::new(), Node::new("h200-x2"));
    let out = scratch.path().join("out").to_string_lossy().into_owned();
    let mut arguments: Vec<String> = ["trace", "--on", "sim:h200-x2", "--out", &out, "--"].map(str::to_owned).to_vec();
    match name.strip_suffix(".c") {
        Some(_) => arguments.push(node.program(name).to_string_lossy().into_owned()),
        None => {
            let file = root().join(traced(name)).to_string_lossy().into_owned();
            arguments.extend(["python3".to_owned(), "-B".to_owned(), file]);
        }
    }
    if name == "many_children.py" {
        arguments.extend(["4".to_owned(), "2".to_owned()]);
    }
    let ran = scratch.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, Some(0), "{name}: {ran:#?}");
    let folder = fs::read_dir(&out).expect("the folder of traces").flatten().next().expect("a trace");
    Trace::open(&folder.path()).expect("the trace can be read")
}

#[test]
fn each_program_has_the_pitfall_that_it_was_written_for_at_its_line() {
    for (name, expected) in PROGRAMS.iter().filter(|(name, _)| is_there(name)) {
        let trace = trace(name);
        let found = findings(&trace);
        let pitfalls: Vec<_> = found.iter().filter(|finding| finding.severity == Severity::Pitfall).collect();
        let rules: Vec<&str> = pitfalls.iter().map(|finding| finding.rule.as_str()).collect();
        assert_eq!(rules, expected.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), "{name}: {found:#?}");
        if let (Some((_, label)), Some(finding)) = (expected, pitfalls.first()) {
            let line = lines_of(std::path::Path::new(name)).get(*label).copied().expect("a label of the program");
            assert!(finding.says.starts_with(&format!("{name}:{line} ")), "{}", finding.says);
        }
    }
}

#[test]
fn the_workaround_is_that_of_the_framework_on_the_stack() {
    if !is_there("guard.py") {
        return;
    }
    // Imitations: what is tested is which words are chosen.
    let of = |name: &str| -> Vec<String> {
        let found = findings(&trace(name)).into_iter().filter(|finding| finding.severity == Severity::Pitfall);
        found.map(|finding| finding.workaround).collect()
    };
    assert!(of("guard.py")[0].starts_with("cupy.cuda.Device(1).use()"));
    assert!(of("stray_context.py")[0].starts_with("torch.cuda.set_device(1) first"));
    assert!(of("late_mask.py")[0].contains("torch.cuda.is_available()"));
}

#[test]
fn a_policy_is_violated_kept_or_undecided() {
    if !is_there("spawn.py") {
        return;
    }
    let check = |name: &str, forbid: &[&str], most: &[&str]| -> PolicyOutcome {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let policy = Policy::parse(&texts(forbid), &texts(most)).expect("a policy");
        let trace = trace(name);
        policy.check(&trace, &findings(&trace))
    };
    let said = |outcome: &PolicyOutcome| -> Vec<(String, String)> {
        outcome.violations.iter().map(|it| (it.forbidden.clone(), it.says.clone())).collect()
    };
    let stray = check("stray_context.py", &["context:gpu0", "stray", "late-mask"], &["gpu0=64MiB", "gpu1=2GiB"]);
    let violated = said(&stray);
    let words: Vec<&str> = violated.iter().map(|(forbidden, _)| forbidden.as_str()).collect();
    assert_eq!(words, ["context:gpu0", "stray", "max-bytes gpu0=64MiB"]);
    let line = lines_of(std::path::Path::new("stray_context.py"))["stray"];
    let is_at_line = |(_, says): &(String, String)| says.contains(&format!("stray_context.py:{line}"));
    assert!(violated.iter().all(is_at_line), "{violated:#?}");
    assert_eq!(stray.undecided, [] as [&str; 0]);
    assert!(check("no_cuda.py", &["cuinit", "context", "error"], &["gpu0=0B"]).is_kept());
    let spawn = check("spawn.py", &["context:gpu1"], &[]);
    assert!(spawn.violations.is_empty() && spawn.undecided.len() == 1, "{spawn:#?}");
    assert!(spawn.undecided[0].contains("without the trace's variables"), "{spawn:#?}");
    // One fork of three ways to start a child: whether that one was refused CUDA cannot be seen.
    let silent = check("silent_fork.py", &["fork"], &[]);
    assert!(silent.violations.is_empty() && silent.undecided.len() == 1, "{silent:#?}");
    let lines = lines_of(std::path::Path::new("silent_fork.py"));
    let (forked, init) = (lines["forked"], lines["init"]);
    let says = format!("fork: silent_fork.py:{forked} forks pid ");
    let after = format!(" after silent_fork.py:{init} has initialised CUDA through cuInit;");
    assert!(silent.undecided[0].starts_with(&says) && silent.undecided[0].contains(&after), "{silent:#?}");
    assert_eq!(check("fork_after_init.py", &["fork"], &[]).violations.len(), 1);
}
