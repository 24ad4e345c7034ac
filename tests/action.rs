//! The action of action.yml, on the simulated machine and with a program that only ends. Everything that its workflows
//! use is pinned.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::traced::{LATE, in_time};
use common::{PROGRAM, Scratch, names_in, read_text, root, script};

/// Exit code of the action's script, and its outputs for GitHub.
struct Acted {
    code: Option<i32>,
    log: String,
    outputs: String,
    summary: String,
}

impl Acted {
    fn output(&self, name: &str) -> &str {
        let line = self
            .outputs
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
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
        log: [output.stdout, output.stderr]
            .map(|it| String::from_utf8_lossy(&it).into_owned())
            .concat(),
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
            (
                "SELECTORS",
                "  visibility/uuid-*\n visibility/empty-mask-hides-all ",
            ),
            ("ON", "sim"),
            ("OUT", "kept"),
            ("ARGUMENTS", "--repeat 2"),
        ],
    );
    assert_eq!(
        (acted.code, acted.output("exit-code")),
        (Some(0), "0"),
        "{}",
        acted.log
    );
    assert!(
        acted
            .log
            .contains("\n::warning title=cuda-pitfalls::SIMULATED"),
        "{}",
        acted.log
    );
    assert!(
        acted.summary.starts_with("# cuda-pitfalls"),
        "{}",
        acted.summary
    );
    let folder = scratch.path().join(acted.output("folder"));
    assert!(acted.output("folder").starts_with("kept/"));
    for name in ["report.html", "junit.xml", "summary.md"] {
        assert!(
            fs::metadata(folder.join(name)).is_ok_and(|file| file.len() > 100),
            "{name} is missing"
        );
    }
    let report = cuda_pitfalls::report::read(&scratch.path().join(acted.output("report")))
        .expect("a report");
    let names: Vec<&str> = report
        .scenarios
        .iter()
        .map(|scenario| scenario.name.as_str())
        .collect();
    assert!(
        names.contains(&"visibility/uuid-twice")
            && names.contains(&"visibility/empty-mask-hides-all"),
        "{names:?}"
    );
}

#[test]
fn a_folder_of_two_lines_is_refused() {
    let acted = act(
        &Scratch::new(),
        &[("PROGRAM", PROGRAM), ("OUT", "kept\nexit-code=0")],
    );
    assert_eq!(
        (acted.code, acted.outputs.as_str()),
        (Some(2), ""),
        "{}",
        acted.log
    );
}

/// Writes a package into a separate directory below a repository; its import initializes CUDA.
fn package(scratch: &Scratch) {
    let folder = scratch.path().join("lib dir/mine");
    fs::create_dir_all(&folder).expect("a folder of our own");
    fs::create_dir(scratch.path().join(".git")).expect("a folder of our own");
    let code = "import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\n";
    fs::write(folder.join("__init__.py"), code).expect("a file of our own");
}

#[test]
fn a_command_is_traced_annotated_summarised_and_kept() {
    let scratch = Scratch::new();
    package(&scratch);
    // Quotes are the shell's, as in a step of a job; the forbidden words are split but not expanded.
    let inputs = [
        ("PROGRAM", PROGRAM),
        (
            "COMMAND",
            "python3 -c 'import mine; print(\"it runs\")'\necho \"[${FORBID-}]\" after it",
        ),
        ("FORBID", " cuinit, late-mask\nfork "),
        ("WORKING_DIRECTORY", "lib dir"),
        ("ON", "sim"),
        ("OUT", "kept"),
        ("ARGUMENTS", "--all-calls"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    let acted = in_time(
        |acted: &Acted| acted.log.contains(LATE),
        || act(&scratch, &inputs),
    );
    assert_eq!(
        (acted.code, acted.output("exit-code")),
        (Some(1), "1"),
        "{}",
        acted.log
    );
    assert!(
        acted.log.contains("it runs\n[] after it\n"),
        "the command is a script without our inputs: {}",
        acted.log
    );
    let annotation = "\n::error file=lib dir/mine/__init__.py,line=2,title=forbidden%3A cuinit::";
    assert!(acted.log.contains(annotation), "{}", acted.log);
    assert!(
        acted.summary.starts_with("# ")
            && acted.summary.contains(":2: forbidden: ")
            && acted.summary.contains("## Forbidden"),
        "{}",
        acted.summary
    );
    let folder = scratch.path().join("kept");
    assert!(
        Path::new(acted.output("folder")).starts_with(folder.canonicalize().expect("it is there"))
    );
    for name in ["report", "sarif"] {
        assert!(
            fs::metadata(acted.output(name)).is_ok_and(|file| file.len() > 100),
            "{name} is missing"
        );
    }
    let never = act(&scratch, &[&inputs[..], &[("FAIL_ON", "never")]].concat());
    assert_eq!(
        (never.code, never.output("exit-code")),
        (Some(0), "1"),
        "{}",
        never.log
    );
}

#[test]
fn a_traced_command_that_fails_or_cannot_be_traced_fails_the_job() {
    let scratch = Scratch::new();
    let traced = |inputs: &[(&str, &str)]| {
        let own = [("PROGRAM", PROGRAM), ("ON", "sim"), ("OUT", "kept")];
        act(&scratch, &[&own[..], inputs].concat())
    };
    // Here 3 is the program's own exit code, so it is not taken for undecided.
    for (command, code) in [
        ("true", 0),
        ("exit 3", 3),
        ("false | true", 1),
        ("exit 42", 42),
    ] {
        let acted = traced(&[("COMMAND", command), ("FORBID", "cuinit")]);
        assert_eq!(
            (acted.code, acted.output("exit-code")),
            (Some(code), code.to_string().as_str()),
            "{}",
            acted.log
        );
        assert_ne!(acted.output("sarif"), "", "{command}");
    }
    for fail_on in ["unexpected", "never"] {
        let acted = traced(&[
            ("COMMAND", "true"),
            ("FORBID", "cuinits"),
            ("FAIL_ON", fail_on),
        ]);
        assert_eq!(
            (acted.code, acted.output("sarif")),
            (Some(2), ""),
            "{}",
            acted.log
        );
        assert!(
            acted.log.contains("did you mean `cuinit`?")
                && acted.log.contains("no trace was written")
        );
    }
    let acted = traced(&[("COMMAND", "true"), ("WORKING_DIRECTORY", "nowhere")]);
    assert!(
        acted.code == Some(2) && acted.log.contains("no such working-directory"),
        "{}",
        acted.log
    );
    for alone in [("FORBID", "cuinit"), ("WORKING_DIRECTORY", ".")] {
        let acted = traced(&[alone]);
        assert!(
            acted.code == Some(2) && acted.log.contains("give the input command too"),
            "{}",
            acted.log
        );
    }
}

/// Returns a program that only ends with this code.
fn ending(scratch: &Scratch, code: i32) -> String {
    let path = scratch.path().join(format!("ends-with-{code}"));
    script(&path, &format!("#!/bin/sh\nexit {code}\n"));
    path.to_string_lossy().into_owned()
}

#[test]
fn fail_on_says_which_exit_codes_fail_the_job() {
    let scratch = Scratch::new();
    for exit in cuda_pitfalls::exit::Exit::WORST_FIRST {
        let (code, program) = (exit.code(), ending(&scratch, exit.code()));
        for (fail_on, passes) in [
            ("unexpected", &[0, 3][..]),
            ("inconclusive", &[0]),
            ("never", &[0, 1, 3, 4, 5]),
        ] {
            let acted = act(&scratch, &[("PROGRAM", &program), ("FAIL_ON", fail_on)]);
            let wanted = if passes.contains(&code) { 0 } else { code };
            assert_eq!(acted.code, Some(wanted), "{exit:?} with fail-on: {fail_on}");
            assert_eq!(acted.output("report"), "", "nothing was written");
            assert!(
                acted.log.contains("::error title=cuda-pitfalls::no report"),
                "{}",
                acted.log
            );
        }
    }
    let acted = act(&scratch, &[("PROGRAM", PROGRAM), ("FAIL_ON", "sometimes")]);
    assert!(
        acted.code == Some(2) && acted.log.contains("fail-on is none of"),
        "{}",
        acted.log
    );
}

#[test]
fn every_input_reaches_the_script_as_a_variable() {
    let (action, script) = (read_text("action.yml"), read_text(".github/action/run"));
    let of_run = "SELECTORS ON OUT FAIL_ON ARGUMENTS PROGRAM SOURCES";
    for variable in format!("{of_run} COMMAND FORBID WORKING_DIRECTORY").split(' ') {
        let given = action
            .lines()
            .any(|line| line.trim().trim_matches('"').starts_with(variable));
        assert!(given, "action.yml gives no {variable}");
        assert!(
            script.contains(&format!("${{{variable}")) || script.contains(&format!("${variable}")),
            "{variable}"
        );
    }
    let scripts = action
        .lines()
        .filter(|line| line.trim_start().starts_with("run:"));
    assert!(
        scripts.clone().count() == 1 && !scripts.clone().any(|line| line.contains("${{")),
        "an input in a script"
    );
}

#[test]
fn program_comes_from_a_wheel_once_one_is_published() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.at(".github")).expect("a folder of our own");
    let install = scratch.file(".github/program", read_text(".github/program"));
    for tool in ["cargo", "python3"] {
        script(&scratch.path().join(tool), "#!/bin/sh\necho $0 \"$@\"\n");
    }
    for (wheels, wanted) in [
        ("# cuda-pitfalls==1.2.3\n", "/cargo install --locked "),
        ("cuda-pitfalls==1.2.3\n", "/python3 -m pip install "),
    ] {
        scratch.file(".github/wheels.txt", wheels);
        let mut program = Command::new("bash");
        program.env("PATH", scratch.at(":/usr/bin:/bin"));
        program.arg(&install).arg("made");
        let output = program.output().expect("bash");
        assert_eq!(output.stdout, b"made/bin/cuda-pitfalls\n");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(log.contains(wanted), "{log}");
    }
}

#[test]
fn actions_of_others_are_pinned_to_a_commit() {
    let files = names_in(root().join(".github/workflows"));
    let files = files.iter().map(|name| format!(".github/workflows/{name}"));
    let mut pinned = 0;
    for file in files.chain(["action.yml".to_owned()]) {
        for line in read_text(&file).lines() {
            let Some((_, used)) = line.split_once("uses: ") else {
                continue;
            };
            if used.trim() == "./" {
                continue;
            }
            let is_pinned = used
                .split_once('@')
                .and_then(|(_, rest)| rest.split_once(" # v"))
                .is_some_and(|(hash, _)| {
                    hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                });
            assert!(is_pinned, "{file}: {line}");
            pinned += 1;
        }
    }
    assert!(pinned >= 8, "only {pinned} were found");
}
