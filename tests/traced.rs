//! The programs of `tests/traced`, not traced: they do on the simulated driver what their first lines say, so that a
//! trace shows their own behavior.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::root;
use common::traced::{Node, PROGRAMS, command, events, lines_of, run};

/// Number of calls of a hook in the processes of a program that runs without arguments: once for programs that are not
/// listed.
const HOOKED: &[(&str, usize)] = &[
    // Not in the child of `env -i`, which has no variables.
    ("spawn.py", 2),
    ("many_children.py", 200),
    // The program before the exec and the one after it.
    ("exec_in_thread.py", 2),
    ("exec_sets_mask.py", 2),
    // One for each child, and in own_number.py the launcher too.
    ("misspelt_mask.py", 2),
    ("own_number.py", 3),
    ("reordered.py", 2),
    ("idle_worker.py", 2),
    ("crowd.py", 5),
    ("exec_after_work.py", 2),
    ("no_cuda.py", 0),
    ("no_cuda.c", 0),
];

#[test]
fn programs_initialise_cuda_as_often_as_they_say() {
    let node = Node::new("h200-x2");
    let (hook, log) = (
        node.compile(
            "tests/injection/hook.c",
            "libhook.so",
            &["-shared", "-fPIC"],
        ),
        node.file("log"),
    );
    for program in PROGRAMS.iter().filter(|program| program.1.is_empty()) {
        // A process that is no longer root can neither load the hook from a folder of root nor write to one.
        if program.0 == "setuid.py" {
            continue;
        }
        let _ = fs::remove_file(&log);
        let mut command = command(&node, program);
        command
            .env("CUDA_INJECTION64_PATH", &hook)
            .env("HOOK_LOG", &log);
        let ran = node.run(command);
        let lines = fs::read_to_string(&log).unwrap_or_default();
        let expected = HOOKED
            .iter()
            .find(|(name, _)| *name == program.0)
            .map_or(1, |(_, times)| *times);
        assert_eq!(
            lines.lines().count(),
            expected,
            "{}, by HOOKED: {lines}{ran:#?}",
            program.0
        );
        let events = events(Path::new(program.0));
        let inits = events
            .iter()
            .filter_map(|(_, event)| event.strip_prefix("init, mask "));
        let masks: Vec<&str> = inits.filter_map(|event| event.split(", ").next()).collect();
        let is_said = |line: &str| {
            masks
                .iter()
                .any(|mask| line.ends_with(&format!("mask {mask}")))
        };
        assert!(
            lines.lines().all(is_said),
            "{}: {lines}{masks:?}",
            program.0
        );
    }
}

#[test]
fn programs_do_what_they_say() {
    let node = Node::new("h200-x2");
    for program in PROGRAMS {
        let ran = run(&node, program);
        let what = format!("{} {:?}: {ran:#?}", program.0, program.1);
        assert_eq!(ran.code, program.2, "{what}");
        assert!(ran.stderr.is_empty(), "{what}");
        let printed = if program.3.ends_with('\n') {
            ran.stdout == program.3
        } else {
            ran.stdout.starts_with(program.3)
        };
        assert!(
            printed && ran.stdout.is_empty() == program.3.is_empty(),
            "{what}"
        );
    }
}

#[test]
fn every_program_says_what_a_trace_shows_and_where() {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(root().join("tests/traced"))
        .expect("the programs")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_program = [".py", ".c"].iter().any(|end| name.ends_with(end)) && name != "driver.py";
        if is_program {
            files.insert(name, fs::read_to_string(entry.path()).expect("text"));
        }
    }
    for (name, text) in files {
        assert!(
            PROGRAMS.iter().any(|program| program.0 == name),
            "{name} is not run by any test"
        );
        let (events, lines) = (events(Path::new(&name)), lines_of(Path::new(&name)));
        assert!(
            !events.is_empty(),
            "{name} does not say what a trace of it shows"
        );
        let unknown: Vec<_> = lines
            .keys()
            .filter(|label| !events.iter().any(|(known, _)| known == *label))
            .collect();
        assert!(unknown.is_empty(), "{name}: nothing shows at {unknown:?}");
        let places = text
            .lines()
            .filter(|line| line.contains("here: ") && !line.contains("shows"))
            .count();
        assert!(
            places > 0 && lines.len() >= places,
            "{name}: a label stands at two lines"
        );
    }
}
