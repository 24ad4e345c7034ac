//! A command of the user's under the instrument: it is started fresh, read from outside, and ended.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use cuda_pitfalls::experiment::{Experiment, Program, Timeouts};
use cuda_pitfalls::recording::Recording;
use cuda_pitfalls::simulated;
use cuda_pitfalls::supervisor::{Interrupt, Supervisor};

use crate::common::{PROGRAM, Scratch};

/// What is recorded of a command on a simulated machine with one GPU.
fn record(command: &[&str], attempt_ms: u64) -> Recording {
    let scratch = Scratch::new();
    let folder = scratch.reports();
    let links = simulated::lay_out("h200-x1", &folder.join("machine")).expect("the simulated machine is laid out");
    let mut supervisor =
        Supervisor::start(Path::new(PROGRAM), &links, &folder, Interrupt::none()).expect("the sampler starts");
    let experiment = Experiment {
        program: Program::Command(command.iter().map(OsString::from).collect()),
        environment: [("QUESTION".to_string(), "why".to_string())].into(),
        gpus: Some(vec!["GPU-of-mine".to_string()]),
        steps: Vec::new(),
        probes: false,
        timeouts: Timeouts { step_ms: 1, attempt_ms },
    };
    supervisor.record(&experiment).expect("it is started")
}

/// A supervisor ends whatever is left behind among the children of its process, so that it has one to itself.
#[test]
fn commands_are_recorded_in_a_process_of_their_own() {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    let ran = command.args(["--ignored", "--test-threads=1", "command::a_command"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains(" 3 passed"), "{said}");
}

#[test]
#[ignore = "started by the test above"]
fn a_command_has_its_environment_and_its_end_is_recorded() {
    let recording = record(&["sh", "-c", "echo $QUESTION $CUDA_VISIBLE_DEVICES; echo no >&2; exit 3"], 20_000);
    assert_eq!(recording.exit.code, Some(3));
    assert_eq!((recording.stdout_tail.as_str(), recording.stderr_tail.as_str()), ("why GPU-of-mine\n", "no\n"));
    assert!(recording.events.is_empty() && recording.incidents.is_empty(), "{recording:?}");
    let [before, after] = recording.snapshots.as_slice() else { panic!("{:?}", recording.snapshots) };
    assert!(before.step.is_none() && after.after_exit && !before.snapshot.gpus.is_empty());
    assert!(recording.polling.is_some_and(|run| run.reads > 0));
}

#[test]
#[ignore = "started by the test above"]
fn a_command_that_does_not_end_is_ended_with_its_children() {
    let recording = record(&["sh", "-c", "sleep 600 & sleep 600"], 500);
    assert_eq!(recording.exit.sent.first().map(String::as_str), Some("SIGTERM"), "{:?}", recording.exit);
    assert!(!recording.exit.unkillable);
}

#[test]
#[ignore = "started by the test above"]
fn a_command_that_is_not_there_is_said_to_be_missing() {
    let recording = record(&["/no/such/command"], 20_000);
    assert_eq!(recording.exit.code, Some(127));
    assert!(recording.stderr_tail.contains("/no/such/command"), "{}", recording.stderr_tail);
}
