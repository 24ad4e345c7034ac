//! Every command of the pages is run, in order, in one directory that has what the reader has.
//!
//! The program has no GPU here: `run`, `doctor` and `trace` get the option for the simulated machine, and `fleet merge`
//! the one that accepts simulated reports. Nothing else of a command is changed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{README, WHEEL, lines, page};
use crate::common::{PROGRAM, Scratch, gpus, root, script};

/// Commands that are not run here, each with the reason and with what is done instead.
const NOT_RUN: [(&str, &str); 3] = [
    (
        "cargo test --workspace",
        "these tests are a part of it; `.ci/run` gives the command",
    ),
    (
        "cargo install --locked --path .",
        "it builds the program once more; its arguments are given to `cargo`",
    ),
    (
        "python -m cuda_pitfalls",
        "the module is not installed here; tests/python_mask.rs runs it",
    ),
];

/// Command that starts the program with Cargo, followed by the program's own arguments.
const BY_CARGO: &str = "cargo run -- ";

/// Returns the commands of a page: the lines of its blocks of shell, and code in prose that starts or pipes into a
/// program.
pub(super) fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for (block, line) in lines(page) {
        match block {
            Some("sh") => commands.push(line.to_owned()),
            Some(_) => {}
            None => {
                let spans = line
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .map(|span| span.replace("\\|", "|"));
                commands.extend(spans.filter(|span| {
                    ["cuda-pitfalls ", "cargo ", "pip ", "python "]
                        .iter()
                        .any(|start| span.starts_with(start))
                }));
            }
        }
    }
    commands
}

/// A program that calls `cuInit` if there is a libcuda, and then fails as PyTorch does in a forked child.
const TRAIN: &str = r#"import ctypes, sys
try:
    ctypes.CDLL("libcuda.so.1").cuInit(0)
except OSError:
    pass
sys.exit("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
         "you must use the 'spawn' start method")
"#;

/// Prepares a reader's folder: a program to trace and a package to import. Returns a PATH with the commands.
fn prepare(folder: &Path) -> String {
    let tools = folder.join("tools");
    fs::create_dir(&tools).expect("a folder of our own");
    // `who` has nothing to show on a machine without a GPU, and says so with 4.
    let program = format!(
        "#!/bin/sh\ncase \"$1 $*\" in\n  *' --on '*) exec {PROGRAM} \"$@\";;\n  \
         'run '*) shift; exec {PROGRAM} run --on sim --quick \"$@\";;\n  \
         'doctor '*) shift; exec {PROGRAM} doctor --on sim \"$@\";;\n  \
         'who '*) {PROGRAM} \"$@\" || exit $(($? - 4));;\n  \
         'trace '*) shift; exec {PROGRAM} trace --on sim \"$@\";;\n  \
         'fleet fleet merge'*) exec {PROGRAM} \"$@\" --simulated;;\n  *) exec {PROGRAM} \"$@\";;\nesac\n"
    );
    script(&tools.join("cuda-pitfalls"), &program);
    script(&tools.join("python"), "#!/bin/sh\nexec python3 \"$@\"\n");
    fs::write(folder.join("train.py"), TRAIN).expect("a file of our own");
    fs::write(folder.join("mypackage.py"), "").expect("a file of our own");
    format!(
        "{}:{}",
        tools.display(),
        std::env::var("PATH").unwrap_or_default()
    )
}

fn give(line: &str, folder: &Path, path: &str) -> Output {
    let mut command = Command::new("sh");
    command
        .args(["-e", "-c", line])
        .current_dir(folder)
        .env("PATH", path)
        .stdin(Stdio::null());
    command
        .env("TMPDIR", folder)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "80");
    command.output().expect("a shell starts")
}

/// Returns a command in the form for an installed program.
fn started(line: &str) -> String {
    match line.strip_prefix(BY_CARGO) {
        Some(arguments) => format!("cuda-pitfalls {arguments}"),
        None => line.to_owned(),
    }
}

/// Runs the commands of a page and returns what all of them printed.
fn follow(path: &str, folder: &Path) -> String {
    let tools = prepare(folder);
    let mut printed = String::new();
    for line in commands(&page(path)) {
        if NOT_RUN.iter().any(|(command, _)| *command == line) {
            continue;
        }
        let mut command = started(&line);
        if gpus() > 0 {
            // The GPUs of this host belong to the trials that take turns on them.
            command = command.replace("--on auto", "--on sim");
        }
        let output = give(&command, folder, &tools);
        let text = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        // The traced program ends with 1, and a trace ends as its program does.
        let expected = i32::from(line.contains("-- python train.py"));
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{path}: {line}\n{text}"
        );
        printed += &text;
    }
    printed
}

fn has_file(folder: &Path, name: &str) {
    let size = fs::metadata(folder.join(name))
        .map(|file| file.len())
        .unwrap_or(0);
    assert!(size > 100, "{name} has {size} bytes");
}

#[test]
fn the_commands_of_the_readme_work_in_their_order() {
    let scratch = Scratch::new();
    let folder = scratch.path();
    let printed = follow(README, folder);
    for phrase in [
        "SIMULATED",
        "CUDA_VISIBLE_DEVICES was read",
        "multiprocessing.set_start_method(\"spawn\")",
        "21 questions simulated: 21 as expected",
    ] {
        assert!(
            printed.contains(phrase),
            "`{phrase}` was not printed:\n{printed}"
        );
    }
    for file in ["junit.xml", "eager.c", "fleet.json", "fleet.html"] {
        has_file(folder, file);
    }
}

#[test]
fn the_commands_of_the_page_of_the_wheel_work_in_their_order() {
    let scratch = Scratch::new();
    let folder = scratch.path();
    let printed = follow(WHEEL, folder);
    assert!(printed.contains("reads the mask (at"), "{printed}");
    let archive = "cuda-pitfalls-set-device-is-eager.tar.gz";
    for file in ["eager.c", archive, "fleet.json"] {
        has_file(folder, file);
    }
}

/// The scenario that docs/run.md writes, and the commands below it.
#[test]
fn the_question_of_ones_own_is_valid_and_answered() {
    let scratch = Scratch::new();
    let tools = prepare(scratch.path());
    let run = page("docs/run.md");
    let (_, section) = run.split_once("## Your own scenario").expect("the section");
    let question: String = lines(section)
        .iter()
        .filter(|it| it.0 == Some("toml"))
        .map(|it| format!("{}\n", it.1))
        .collect();
    fs::write(scratch.path().join("synchronize-first.toml"), question).expect("a file of our own");
    let given: Vec<&str> = lines(section)
        .into_iter()
        .filter(|it| it.0 == Some("sh"))
        .map(|it| it.1)
        .collect();
    assert_eq!(given.len(), 2, "{given:?}");
    for line in given {
        let output = give(line, scratch.path(), &tools);
        assert!(output.status.success(), "{line}: {output:#?}");
    }
}

/// Each command on the list is on a page, and CI or Cargo's own command line accepts it.
#[test]
fn what_is_not_run_is_on_a_page_and_in_ci() {
    let all = [commands(&page(README)), commands(&page(WHEEL))].concat();
    let idle: Vec<&str> = NOT_RUN
        .iter()
        .map(|it| it.0)
        .filter(|it| !all.iter().any(|line| line == it))
        .collect();
    assert!(idle.is_empty(), "on no page: {idle:?}");
    let ci = fs::read_to_string(root().join(".ci/run")).expect("the checks");
    for command in [
        "cargo run --locked -- run --on auto",
        "cargo test --workspace --locked",
    ] {
        assert!(
            ci.lines().any(|line| line == command),
            ".ci/run does not give `{command}`"
        );
    }
    // `--list` lists what is installed and installs nothing.
    let install = give(
        "cargo install --locked --path . --list",
        root(),
        &std::env::var("PATH").unwrap_or_default(),
    );
    assert!(
        install.status.success(),
        "{}",
        String::from_utf8_lossy(&install.stderr)
    );
}
