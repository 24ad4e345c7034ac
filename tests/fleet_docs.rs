//! The commands of docs/fleet.md, run as written.
//!
//! The cluster is simulated: `ssh` runs its command here, and one machine of four does not answer. The program has no
//! GPU, so `run` and `merge` get the options for the simulated machine; nothing else is changed.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{PROGRAM, Scratch, root};
use cuda_pitfalls::input::document_path;

/// Returns the blocks of a page that are commands, without the indent of a list.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut indent = None;
    for line in page.lines() {
        let text = line.trim_start();
        match indent {
            None if text == "```sh" => {
                indent = Some(line.len() - text.len());
                blocks.push(String::new());
            }
            Some(_) if text == "```" => indent = None,
            Some(indent) => {
                let last = blocks.last_mut().expect("a block has begun");
                last.push_str(line.get(indent..).unwrap_or(text));
                last.push('\n');
            }
            None => {}
        }
    }
    blocks
}

fn script(folder: &Path, name: &str, text: &str) {
    common::script(&folder.join(name), &format!("#!/bin/sh\n{text}"));
}

#[test]
fn the_commands_of_the_page_lead_to_a_page_of_outliers() {
    let scratch = Scratch::new();
    let tools = scratch.path().join("tools");
    fs::create_dir(&tools).expect("a folder of our own");
    let program = format!(
        "case \"$1 $2\" in\n  'run '*) exec {PROGRAM} \"$@\" --on sim;;\n  \
         'fleet merge') exec {PROGRAM} \"$@\" --simulated;;\n  *) exec {PROGRAM} \"$@\";;\nesac\n"
    );
    script(&tools, "cuda-pitfalls", &program);
    script(
        &tools,
        "sinfo",
        "printf 'gpu-4\\ngpu-1\\ngpu-2\\ngpu-3\\ngpu-1\\n'\n",
    );
    let lost = "echo \"ssh: connect to host $node port 22: No route to host\" >&2; exit 255";
    script(
        &tools,
        "ssh",
        &format!(
            "while :; do case $1 in -n) shift;; -o) shift 2;; *) break;; esac; done\nnode=$1; shift\n[ \"$node\" = gpu-4 ] && {{ {lost}; }}\nexec \"$@\"\n"
        ),
    );
    script(&tools, "jq", "exec cat\n");

    let page = fs::read_to_string(root().join("docs/fleet.md")).expect("the page");
    let blocks = blocks(&page);
    assert!(blocks.len() >= 6, "{blocks:#?}");
    let path = format!(
        "{}:{}",
        tools.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut shown = String::new();
    for block in &blocks {
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", block])
            .current_dir(scratch.path())
            .env("PATH", &path)
            .stdin(Stdio::null());
        command.env("TMPDIR", scratch.path()).env("NO_COLOR", "1");
        let output = command.output().expect("a shell starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{block}\nended with {}:\n{stderr}",
            output.status
        );
        shown.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let log = fs::read_to_string(scratch.path().join("runs.log")).expect("the runs' log");
    assert!(
        log.contains("gpu-4: exit 255\n") && log.contains("No route to host"),
        "{log}"
    );
    assert!(shown.contains("fleet\n3 machines in"), "{shown}");
    assert!(
        shown.contains("Missing     1 of 4 expected (gpu-4)"),
        "{shown}"
    );
    assert!(shown.contains("SIMULATED"), "{shown}");
    for file in [
        "fleet.json",
        "fleet.html",
        "summary.md",
        "cuda_pitfalls_fleet.prom",
    ] {
        let size = fs::metadata(scratch.path().join(file))
            .map(|file| file.len())
            .unwrap_or(0);
        assert!(size > 100, "{file}: {size} bytes\n{shown}");
    }
}

#[test]
fn two_of_the_made_up_machines_of_the_page_differ() {
    let (scratch, demo) = (Scratch::new(), "docs/examples/fleet.ndjson");
    let page = fs::read_to_string(root().join("docs/fleet.md")).expect("the page");
    assert!(page.contains(demo), "{demo}");
    let [demo, out] = [root().join(demo), scratch.path().join("fleet.json")]
        .map(|path| path.to_string_lossy().into_owned());
    let merge: [&str; 8] = [
        "fleet",
        "merge",
        "--simulated",
        &demo,
        "--out",
        &out,
        "--forbid",
        "differences",
    ];
    scratch.run(&merge).ended(1, "unexpected");
    let shown = scratch.run(&["fleet", "render", &out]).stdout;
    for says in [
        "SIMULATED",
        "8 machines in ",
        "2 machines differ",
        "machine: driver",
        "machine: context size",
    ] {
        assert!(shown.contains(says), "{says}:\n{shown}");
    }
}

/// The step of docs/ci.md that compares with the previous run: the first run has nothing to compare with, an equal run
/// passes, a different run fails.
#[test]
fn a_job_compares_with_the_run_before() {
    let page = fs::read_to_string(root().join("docs/ci.md")).expect("the page");
    let (_, step) = page
        .split_once("        run: |\n          last=")
        .expect("the step");
    let script: Vec<&str> = step
        .lines()
        .take_while(|line| *line != "```")
        .map(str::trim)
        .collect();
    let script = format!("last={}", script.join("\n"));
    let scratch = Scratch::new();
    let tools = scratch.path().join("tools");
    fs::create_dir(&tools).expect("a folder of our own");
    self::script(&tools, "cuda-pitfalls", &format!("exec {PROGRAM} \"$@\"\n"));
    let path = format!(
        "{}:{}",
        tools.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let compared = |report: &str| {
        let mut command = Command::new("bash");
        command
            .args(["-e", "-c", &script])
            .env("HOME", scratch.path())
            .env("PATH", &path);
        let output = command
            .env("REPORT", document_path(&root().join(report)))
            .stdin(Stdio::null())
            .output()
            .expect("a shell starts");
        output.status.code()
    };
    let (one, other) = (
        "reports/compact/h100-x1-all.json",
        "reports/compact/h100-x1-beside-a-co-tenant.json",
    );
    assert_eq!([compared(one), compared(one)], [Some(0), Some(0)]);
    assert_eq!(compared(other), Some(1), "another stack");
    assert_eq!(compared(other), Some(0), "it is the run before now");
}
