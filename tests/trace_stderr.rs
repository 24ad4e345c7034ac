//! The stderr of a traced program: its last lines are recorded, and the program cannot notice it.

use crate::common;

use std::fs;
use std::io::{self, Read};
use std::process::{Command, Stdio};

use common::Scratch;

const SAYS: &str = "import sys, os; print(os.isatty(2), file=sys.stdout); print('  secret(1)\\nRuntimeError: No CUDA GPUs are available', sys.argv[1:], file=sys.stderr); sys.exit(3)";
const MEANS: &str = "CUDA works, but no GPU is visible to this process";

/// Returns a trace on the simulated machine, not yet started.
fn trace(scratch: &Scratch, options: &[&str], program: &[&str]) -> Command {
    let out = scratch.at("out");
    scratch.command(
        &[
            &["trace", "--on", "sim", "--out", &out],
            options,
            &["--"],
            program,
        ]
        .concat(),
    )
}

#[test]
fn a_known_error_on_stderr_is_explained_in_every_form() {
    let scratch = Scratch::new();
    let paths = ["json", "sarif", "markdown", "junit", "html"]
        .map(|form| (form, scratch.at(&format!("trace.{form}"))));
    let named = paths
        .iter()
        .map(|(form, path)| format!("--{form}={path}"))
        .collect::<Vec<_>>();
    let options: Vec<&str> = named
        .iter()
        .map(String::as_str)
        .chain(["--github", "--redact"])
        .collect();
    for is_pipe in [true, false] {
        let mut command = trace(
            &scratch,
            &options,
            &["python3", "-c", SAYS, "--key=hunter2"],
        );
        let stderr = if is_pipe {
            String::from_utf8(command.output().expect("it starts").stderr).expect("text")
        } else {
            scratch.ran(command).stderr
        };
        let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.starts_with("secret(1) RuntimeError: No CUDA"),
            "{stderr}"
        );
        assert!(
            said.contains(
                "The program's error - The program wrote on stderr: `RuntimeError: No CUDA"
            ),
            "{stderr}"
        );
        assert!(
            said.contains("::warning title=cuda-pitfalls%3A explained error::"),
            "{stderr}"
        );
        assert!(
            said.contains("the program failed with a known error"),
            "{stderr}"
        );
        for (form, path) in &paths {
            let written = fs::read_to_string(path).expect(form);
            assert!(
                written.contains(MEANS)
                    && !written.contains("secret(1)")
                    && !written.contains("hunter2"),
                "{form}: {written}"
            );
            fs::remove_file(path).expect(form);
        }
    }
}

#[test]
fn stderr_stays_a_terminal_and_a_program_that_went_well_says_nothing() {
    let scratch = Scratch::new();
    let traced = trace(&scratch, &[], &["python3", "-c", SAYS]);
    let mut command = Command::new("python3");
    command.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]);
    command
        .arg(traced.get_program())
        .args(traced.get_args())
        .env("TMPDIR", scratch.path());
    let out = command
        .stdin(Stdio::null())
        .output()
        .expect("python3 starts");
    let shown = String::from_utf8_lossy(&out.stdout);
    assert!(
        shown.contains("True")
            && shown.contains("the program exited with 3")
            && !shown.contains(MEANS),
        "{shown}"
    );
    let fine = trace(
        &scratch,
        &[],
        &["python3", "-c", &SAYS.replace("exit(3)", "exit(0)")],
    )
    .output()
    .expect("it starts");
    assert!(
        !String::from_utf8_lossy(&fine.stderr).contains(MEANS),
        "{fine:?}"
    );
}

#[test]
fn the_order_of_two_streams_in_one_pipe_stays() {
    let scratch = Scratch::new();
    let writes = "import os, sys\nfor line in range(5000): os.write(1 + line % 2, b'%d\\n' % line)\nsys.exit(1)";
    let mut command = trace(&scratch, &[], &["python3", "-c", writes]);
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let mut child = command
        .stdout(writer.try_clone().expect("ours"))
        .stderr(writer)
        .spawn()
        .expect("it starts");
    drop(command);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    child.wait().expect("it ends");
    let wanted: Vec<String> = (0..5000).map(|line: u32| line.to_string()).collect();
    assert!(text.lines().take(5000).eq(wanted), "{text}");
}

#[test]
fn a_child_that_outlives_the_tracer_goes_on_to_write() {
    let scratch = Scratch::new();
    let [go, wrote] = ["go", "wrote"].map(|name| scratch.at(name));
    let child = format!(
        "(until test -e {go}; do sleep 0.05; done; echo late >&2 && echo ok > {wrote}) & exit 3"
    );
    let [explain, trace] = [
        scratch.command(&["explain", "--", "sh", "-c", &child]),
        trace(&scratch, &["--wait-children", "0s"], &["sh", "-c", &child]),
    ];
    for mut command in [explain, trace] {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let status = command
            .stdout(Stdio::null())
            .stderr(writer)
            .spawn()
            .expect("it starts")
            .wait();
        drop(command);
        assert_eq!(status.expect("it ends").code(), Some(3));
        fs::write(&go, "").expect("ours");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        assert!(text.ends_with("late\n"), "{text}");
        assert_eq!(
            fs::read_to_string(&wrote).expect("it was not killed"),
            "ok\n"
        );
        for path in [&go, &wrote] {
            fs::remove_file(path).expect("ours");
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_program_as_without_a_trace() {
    let scratch = Scratch::new();
    let mut command = trace(&scratch, &[], &["sh", "-c", "yes >&2"]);
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .expect("it starts");
    drop(command);
    reader.read_exact(&mut [0; 4]).expect("text");
    drop(reader);
    assert!(!child.wait().expect("it ends").success());
}
