//! `doctor`: its output for the simulated machine and for this one.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::evidence::read_file;
use crate::common::{PROGRAM, Scratch, read_text, root};

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

/// Every row of the table of other libcudas is what was measured, and what the page says about all of them holds.
#[test]
fn table_of_libcudas_is_measured() {
    let file = root().join("reports/libcudas-no-gpu/libcudas.json");
    let text = read_file(&file).expect("the document is committed");
    let measured: Value = serde_json::from_slice(&text).expect("it is JSON");
    let page = read_text("docs/limits.md");
    let libraries = measured["libraries"].as_array().expect("libraries");
    assert_eq!(libraries.len(), 14);
    for library in libraries {
        let text = |key: &str| library[key].as_str().unwrap_or_default();
        let (_, version) = text("file").split_once(".so.").expect("a version");
        let seen = &library["as_root"];
        let cuda = seen["cuDriverGetVersion"][1].as_u64().expect("a version");
        let variables = library["variables"].as_array().expect("variables");
        let left_open = seen["left_open"].as_array().expect("descriptors");
        let is_created = seen["device_files"] == json!(["nvidiactl"]);
        let row = format!(
            "| {version} | {} {} | `{}` | {}.{} | {} | {} | {} | {} | {} | {} | {} |",
            text("package"),
            text("package_version"),
            &text("sha256")[..12],
            cuda / 1000,
            cuda % 1000 / 10,
            library["functions"],
            variables.len(),
            seen["cuInit"],
            seen["cuInit in a forked child"],
            seen["threads"],
            left_open.len(),
            if is_created { "yes" } else { "no" },
        );
        assert!(page.contains(&row), "docs/limits.md lacks\n{row}");
        assert!(!variables.contains(&json!("CUDA_VISIBLE_DEVICES")), "{row}");
        let reads_loading = variables.contains(&json!("CUDA_MODULE_LOADING"));
        assert_eq!(reads_loading, version >= "525", "{row}");
        let mut as_root = seen.clone();
        as_root["device_files"] = json!([]);
        assert_eq!(as_root, library["as_other"], "{row}");
        let causes = &library["doctor"]["diagnosis"]["causes"];
        assert_eq!(causes[0]["kind"], "no_module", "{row}");
    }
}
