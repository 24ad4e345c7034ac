//! `doctor`: its output for the simulated machine and for this one.

use std::process::Command;

use serde_json::Value;

use crate::common::{PROGRAM, Scratch};

/// Runs `doctor` on the simulated machine, and returns its document and its exit code.
fn doctor(arguments: &[&str], variables: &[(&str, &str)]) -> (Value, i32) {
    let mut command = Command::new(PROGRAM);
    command.arg("doctor").args(arguments).arg("--json");
    let output = command
        .envs(variables.iter().copied())
        .output()
        .expect("doctor starts");
    (
        serde_json::from_slice(&output.stdout).expect("one document"),
        output.status.code().expect("doctor exits"),
    )
}

fn causes(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let causes = document["diagnosis"]["causes"].as_array().expect("causes");
    causes
        .iter()
        .map(|cause| (text(&cause["change"]["variable"]), text(&cause["sureness"])))
        .collect()
}

#[test]
fn a_machine_that_works_is_healthy_and_says_that_it_is_simulated() {
    let (document, code) = doctor(&["--on", "sim"], &[]);
    assert_eq!(
        (code, document["provenance"].as_str()),
        (0, Some("simulated"))
    );
    assert_eq!(document["diagnosis"]["state"], "healthy");
    assert_eq!(
        (
            causes(&document).len(),
            document["diagnosis"]["hidden"].as_array().map(Vec::len)
        ),
        (0, Some(0))
    );
    assert_eq!(
        document["examination"]["starts"].as_array().map(Vec::len),
        Some(2),
        "nothing was left out"
    );
}

#[test]
fn a_mask_that_hides_everything_is_proved() {
    let scratch = Scratch::new();
    let absent = scratch.path().join("absent").to_string_lossy().into_owned();
    for mask in ["7", "", "no-gpu"] {
        let variables = [
            ("CUDA_VISIBLE_DEVICES", mask),
            ("CUDA_CACHE_PATH", absent.as_str()),
        ];
        let (document, code) = doctor(&["--on", "sim"], &variables);
        assert_eq!(
            (code, document["diagnosis"]["state"].as_str()),
            (1, Some("found")),
            "{mask}"
        );
        assert_eq!(
            causes(&document),
            [("CUDA_VISIBLE_DEVICES".to_string(), "proved".to_string())],
            "{mask}"
        );
    }
}

#[test]
fn a_gpu_that_the_mask_hides_is_no_fault_and_is_named() {
    let (document, code) = doctor(&["--on", "sim"], &[("CUDA_VISIBLE_DEVICES", "1")]);
    assert_eq!(
        (code, document["diagnosis"]["state"].as_str()),
        (0, Some("healthy"))
    );
    let hidden = &document["diagnosis"]["hidden"];
    assert_eq!(hidden.as_array().map(Vec::len), Some(1), "{hidden}");
    assert_eq!(
        hidden[0]["by"]["change"]["variable"],
        "CUDA_VISIBLE_DEVICES"
    );
    let starts = document["examination"]["starts"]
        .as_array()
        .expect("starts");
    let with_contexts = starts.iter().filter(|start| {
        start["calls"]
            .to_string()
            .contains("cuDevicePrimaryCtxRetain")
    });
    assert_eq!(
        with_contexts.count(),
        1,
        "the hidden GPU may be another's: {starts:?}"
    );
}

#[test]
fn what_cannot_be_asked_is_refused() {
    for (arguments, code) in [
        (&["--on", "auto"][..], 2),
        (&["--on", "sim:no-such-machine"], 2),
        (&["--pid", "1"], 2),
    ] {
        let (document, found) = doctor(arguments, &[]);
        assert_eq!(found, code, "{arguments:?}");
        assert!(
            document["error"]
                .as_str()
                .is_some_and(|error| !error.is_empty()),
            "{arguments:?}"
        );
    }
    let scratch = Scratch::new();
    let absent = scratch.at("absent");
    let (document, code) = doctor(&["--on", "sim"], &[("TMPDIR", &absent)]);
    let why = document["error"].as_str().expect("an error");
    assert!(
        code == 2 && why.contains(&format!("in `{absent}` (TMPDIR): ")),
        "{code}: {why}"
    );
    // As in other programs, an empty variable counts as unset; and a real machine does not need it.
    assert_eq!(doctor(&["--on", "sim"], &[("TMPDIR", "")]).1, 0);
    let (document, code) = doctor(&["--on", "cuda"], &[("TMPDIR", &absent)]);
    assert!(
        code != 70 && document["examination"].is_object(),
        "{document}"
    );
}

#[test]
fn the_text_fits_a_terminal_of_eighty_columns() {
    let output = Command::new(PROGRAM)
        .args(["doctor", "--on", "sim"])
        .envs([
            ("CUDA_VISIBLE_DEVICES", "7"),
            ("CUDA_VISIBLE_DEVICE", "0"),
            ("COLUMNS", "80"),
        ])
        .output()
        .expect("doctor starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.starts_with("SIMULATED") && text.contains("CUDA_VISIBLE_DEVICES is set to \"7\""),
        "{text}"
    );
    assert!(
        text.contains("Misspelled  CUDA_VISIBLE_DEVICE is not a known"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}
