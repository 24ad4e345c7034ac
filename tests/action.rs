//! What the action of action.yml does, on the simulated machine and with a program that only ends; and that what
//! its workflows use is pinned.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{PROGRAM, Scratch, root};

/// How the action's script ended, and what it left for GitHub.
struct Acted {
    code: Option<i32>,
    log: String,
    outputs: String,
    summary: String,
}

impl Acted {
    fn output(&self, name: &str) -> &str {
        let line = self.outputs.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no output `{name}`:\n{}", self.outputs))
    }
}

/// Runs the script in an empty folder, as a runner does.
fn act(scratch: &Scratch, inputs: &[(&str, &str)]) -> Acted {
    let file = |name: &str| scratch.path().join(name);
    for name in ["outputs", "summary"] {
        fs::write(file(name), "").expect("a file of our own");
    }
    let output = Command::new(root().join(".github/action/run"))
        .current_dir(scratch.path())
        .env("TMPDIR", scratch.path())
        .env("GITHUB_OUTPUT", file("outputs"))
        .env("GITHUB_STEP_SUMMARY", file("summary"))
        .envs(inputs.iter().copied())
        .output()
        .expect("the script starts");
    let text = |name: &str| fs::read_to_string(file(name)).expect("it was written");
    Acted {
        code: output.status.code(),
        log: String::from_utf8_lossy(&output.stdout).into_owned(),
        outputs: text("outputs"),
        summary: text("summary"),
    }
}

#[test]
fn a_run_is_annotated_summarised_and_kept() {
    let scratch = Scratch::new();
    // A file that a shell would put in the place of the selector.
    fs::create_dir(scratch.path().join("visibility")).expect("a folder of our own");
    fs::write(scratch.path().join("visibility/uuid-abbreviated"), "").expect("a file of our own");
    let acted = act(
        &scratch,
        &[
            ("PROGRAM", PROGRAM),
            ("SELECTORS", "  visibility/uuid-*\n visibility/empty-mask-hides-all "),
            ("ON", "sim"),
            ("OUT", "kept"),
            ("ARGUMENTS", "--repeat 2"),
        ],
    );
    assert_eq!((acted.code, acted.output("exit-code")), (Some(0), "0"), "{}", acted.log);
    assert!(acted.log.contains("\n::warning title=cuda-pitfalls::SIMULATED"), "{}", acted.log);
    assert!(acted.summary.starts_with("# cuda-pitfalls"), "{}", acted.summary);
    let folder = scratch.path().join(acted.output("folder"));
    assert!(acted.output("folder").starts_with("kept/"));
    for name in ["report.html", "junit.xml", "summary.md"] {
        assert!(fs::metadata(folder.join(name)).is_ok_and(|file| file.len() > 100), "{name} is missing");
    }
    let report = cuda_pitfalls::report::read(&scratch.path().join(acted.output("report"))).expect("a report");
    let names: Vec<&str> = report.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    assert!(
        names.contains(&"visibility/uuid-twice") && names.contains(&"visibility/empty-mask-hides-all"),
        "{names:?}"
    );
}

/// A program that only ends with this code.
fn ending(scratch: &Scratch, code: i32) -> String {
    let path = scratch.path().join(format!("ends-with-{code}"));
    fs::write(&path, format!("#!/bin/sh\nexit {code}\n")).expect("a file of our own");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.to_string_lossy().into_owned()
}

#[test]
fn fail_on_says_which_exit_codes_fail_the_job() {
    let scratch = Scratch::new();
    for exit in cuda_pitfalls::exit::Exit::WORST_FIRST {
        let (code, program) = (exit.code(), ending(&scratch, exit.code()));
        for (fail_on, passes) in [("unexpected", &[0, 3][..]), ("inconclusive", &[0]), ("never", &[0, 1, 3, 4, 5])] {
            let acted = act(&scratch, &[("PROGRAM", &program), ("FAIL_ON", fail_on)]);
            let wanted = if passes.contains(&code) { 0 } else { code };
            assert_eq!(acted.code, Some(wanted), "{exit:?} with fail-on: {fail_on}");
            assert_eq!(acted.output("report"), "", "nothing was written");
            assert!(acted.log.contains("::error title=cuda-pitfalls::no report"), "{}", acted.log);
        }
    }
    let acted = act(&scratch, &[("PROGRAM", PROGRAM), ("FAIL_ON", "sometimes")]);
    assert!(acted.code == Some(2) && acted.log.contains("fail-on is none of"), "{}", acted.log);
}

#[test]
fn every_input_reaches_the_script_as_a_variable() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file of the repository");
    let (action, script) = (read("action.yml"), read(".github/action/run"));
    for variable in ["SELECTORS", "ON", "OUT", "FAIL_ON", "ARGUMENTS", "PROGRAM", "SOURCES"] {
        let given = action.lines().any(|line| line.trim().trim_matches('"').starts_with(variable));
        assert!(given, "action.yml gives no {variable}");
        assert!(script.contains(&format!("${{{variable}")) || script.contains(&format!("${variable}")), "{variable}");
    }
    let scripts = action.lines().filter(|line| line.trim_start().starts_with("run:"));
    assert!(scripts.clone().count() == 1 && !scripts.clone().any(|line| line.contains("${{")), "an input in a script");
}

#[test]
fn actions_of_others_are_pinned_to_a_commit() {
    let folder = root().join(".github/workflows");
    let files = fs::read_dir(&folder).expect("the workflows").flatten().map(|entry| entry.path());
    let mut pinned = 0;
    for file in files.chain([root().join("action.yml")]) {
        for line in fs::read_to_string(&file).expect("a file of the repository").lines() {
            let Some((_, used)) = line.split_once("uses: ") else { continue };
            if used.trim() == "./" {
                continue;
            }
            let is_pinned = used
                .split_once('@')
                .and_then(|(_, rest)| rest.split_once(" # v"))
                .is_some_and(|(hash, _)| hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert!(is_pinned, "{}: {line}", Path::new(&file).display());
            pinned += 1;
        }
    }
    assert!(pinned >= 8, "only {pinned} were found");
}
