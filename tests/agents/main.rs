//! The files of `deploy` for agents that run on a node: each gives its agent what that agent reads, on the simulated
//! machine. The schemas beside this file say what that is, and in which source it was read.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::Value;

use common::trials::{self, Test};
use common::{PROGRAM, Scratch, as_if_measured, root, script};

/// What node-problem-detector keeps of a line.
const LIMIT_BYTES: usize = 80;

const AS_EXPECTED: &str = "visibility/empty-mask-hides-all";
const NOT_AS_EXPECTED: &str = "tests/slurm/not-as-expected.toml";

fn main() -> ExitCode {
    let tests: [(&'static str, fn()); 13] = [
        ("paths_in_the_files_exist", paths_in_the_files_exist),
        ("a_check_says_what_the_machine_does", a_check_says_what_the_machine_does),
        ("the_simulated_machine_says_nothing_of_health", the_simulated_machine_says_nothing_of_health),
        ("a_lost_gpu_or_driver_is_a_problem", a_lost_gpu_or_driver_is_a_problem),
        ("who_keeps_a_check_waiting_does_not_silence_it", who_keeps_a_check_waiting_does_not_silence_it),
        ("slurm_is_told_what_a_check_says", slurm_is_told_what_a_check_says),
        ("a_check_that_says_nothing_leaves_the_last_answer", a_check_that_says_nothing_leaves_the_last_answer),
        ("a_check_ends_in_time", a_check_ends_in_time),
        ("a_reader_never_sees_a_part", a_reader_never_sees_a_part),
        ("node_problem_detector_is_answered", node_problem_detector_is_answered),
        ("the_readiness_rule_is_about_the_condition", the_readiness_rule_is_about_the_condition),
        ("gpud_gets_one_flat_object", gpud_gets_one_flat_object),
        ("soperator_gets_details_on_descriptor_3", soperator_gets_details_on_descriptor_3),
    ];
    let mut tests: Vec<Test> = tests.map(|(name, run)| Test { name, missing: None, run }).into();
    let missing = trials::missing("promtool");
    tests.push(Test { name: "promtool_accepts_the_metrics", missing, run: promtool_accepts_the_metrics });
    trials::run(tests, None).exit_code()
}

fn deploy(name: &str) -> PathBuf {
    root().join("deploy").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails unless the document is valid, and is not when `wrong` has changed it.
fn validate(schema: &str, document: &Value, wrong: impl FnOnce(&mut Value)) {
    let schema = serde_json::from_str(&read(&root().join("tests/agents").join(schema))).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("the schema can be used");
    let errors: Vec<String> = schema.iter_errors(document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut changed = document.clone();
    wrong(&mut changed);
    assert!(!schema.is_valid(&changed), "the schema accepts everything: {changed}");
}

/// A check of this scenario, not yet started; what it keeps goes below the test's folder.
fn check(scratch: &Scratch, scenario: &str) -> Command {
    let mut command = Command::new(deploy("node/check"));
    command.args([scenario, "--on", "sim:h200-x1", "--repeat", "1"]);
    surround(&mut command, scratch);
    command
}

fn surround(command: &mut Command, scratch: &Scratch) {
    let program = scratch.path().join("program");
    if !program.exists() {
        as_if_measured(&program, "");
    }
    command.current_dir(root()).stdin(Stdio::null()).env("CUDA_PITFALLS", program);
    command.env_remove("CUDA_VISIBLE_DEVICES");
    command.env("TMPDIR", scratch.path()).env("CUDA_PITFALLS_CONF", scratch.path().join("none"));
    command.env("CUDA_PITFALLS_STATE", state(scratch)).env("CUDA_PITFALLS_TEXTFILE", state(scratch));
}

fn state(scratch: &Scratch) -> PathBuf {
    scratch.path().join("state")
}

/// The exit code of a program and what it printed.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("it starts");
    (output.status.code(), String::from_utf8(output.stdout).expect("it prints text"))
}

fn status(scratch: &Scratch) -> String {
    read(&state(scratch).join("status"))
}

/// Every path below /opt/cuda-pitfalls that a file names is a program of `deploy`.
fn paths_in_the_files_exist() {
    let mut found = 0;
    for name in [
        "node/cuda-pitfalls-check.service",
        "npd/cuda-pitfalls.json",
        "gpud/plugins.yaml",
        "soperator/cuda_pitfalls.sh",
    ] {
        for rest in read(&deploy(name)).split("/opt/cuda-pitfalls/").skip(1) {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !"/_-.".contains(letter));
            let path = deploy(&rest[..end.unwrap_or(rest.len())]);
            let mode = fs::metadata(&path).map(|file| file.permissions().mode()).unwrap_or_default();
            assert!(mode & 0o111 != 0, "{name}: {} is no program", path.display());
            found += 1;
        }
    }
    assert_eq!(found, 4);
}

fn a_check_says_what_the_machine_does() {
    let scratch = Scratch::new();
    for (scenario, code, line) in
        [(AS_EXPECTED, 0, "1/1 as expected"), (NOT_AS_EXPECTED, 1, "1/1 unexpected: reproduced, slurm/not-as-expected")]
    {
        assert_eq!(run(&mut check(&scratch, scenario)), (Some(code), format!("{line}\n")));
        assert_eq!(status(&scratch), format!("{code} {line}\n"));
        let report = cuda_pitfalls::report::read(&state(&scratch).join("report.json")).expect("a report");
        assert_eq!(report.scenarios.len(), 1);
        let metrics = read(&state(&scratch).join("cuda_pitfalls.prom"));
        assert!(metrics.contains(&format!("scenario=\"{}\"", report.scenarios[0].name)), "{metrics}");
    }
    let mut names: Vec<_> =
        fs::read_dir(state(&scratch)).expect("it is there").flatten().map(|it| it.file_name()).collect();
    names.sort();
    assert_eq!(names, ["cuda_pitfalls.prom", "gpus", "report.json", "status"], "nothing else is left");
    let left = fs::read_dir(scratch.path()).expect("it is there").count();
    assert_eq!(left, 2, "nothing but the program is left in the folder of temporary files");
}

fn the_simulated_machine_says_nothing_of_health() {
    let scratch = Scratch::new();
    for scenario in [AS_EXPECTED, NOT_AS_EXPECTED] {
        let (code, line) = run(check(&scratch, scenario).env("CUDA_PITFALLS", PROGRAM));
        assert_eq!(code, Some(2), "{line}");
        assert!(line.starts_with("SIMULATED: 1/1 ") && status(&scratch) == format!("2 {line}"), "{line}");
    }
    assert!(!state(&scratch).join("gpus").exists(), "its GPUs are none that could be lost");
}

fn a_lost_gpu_or_driver_is_a_problem() {
    let scratch = Scratch::new();
    let on = |machine: &str| {
        let mut command = Command::new(deploy("node/check"));
        command.args([AS_EXPECTED, "--on", machine, "--repeat", "1"]);
        surround(&mut command, &scratch);
        command
    };
    assert_eq!(run(&mut on("sim:h200-x2")).0, Some(0));
    assert_eq!(read(&state(&scratch).join("gpus")), "2\n");
    // One of the two is gone, whatever the other says.
    let lost = (Some(1), "GPU lost: 1 of 2 can be used\n".to_owned());
    assert_eq!(run(&mut on("sim:h200-x1")), lost);
    assert_eq!(status(&scratch), format!("1 {}", lost.1));
    assert_eq!(run(&mut on("sim:h200-x1")), lost, "it is not forgotten");
    assert_eq!(run(on("sim:h200-x1").env("CUDA_PITFALLS_GPUS", "1")).0, Some(0), "a setting is believed");
    let lent = run(on("sim:h200-x1").env("CUDA_VISIBLE_DEVICES", "0"));
    assert!(!lent.1.contains("GPU lost"), "a job that was lent one of them has lost none: {lent:?}");
    // NVML is there and fails.
    let broken = scratch.path().join("broken");
    let unavailable = r#"{"reason":"nvml_error","detail":"the GPU has fallen off the bus"}"#;
    as_if_measured(&broken, &format!(r#"s/"machine":{{/&"unavailable":[{unavailable}],/"#));
    let (code, line) = run(on("sim:h200-x2").env("CUDA_PITFALLS", &broken));
    assert_eq!((code, line.as_str()), (Some(1), "GPU or driver lost: nvml_error: the GPU has fallen off the bus\n"));
}

fn who_keeps_a_check_waiting_does_not_silence_it() {
    let scratch = Scratch::new();
    assert_eq!(run(&mut check(&scratch, AS_EXPECTED)).0, Some(0));
    let busy = scratch.path().join("busy");
    let holder = "the run of process 4711 (user 1000), since 2026-11-22T10:00:00Z";
    let words = format!("cuda-pitfalls: GPU-8b6c2f00 is in use by {holder}; waited 0 s of 0 s (--wait)");
    script(&busy, &format!("#!/bin/sh\necho '{words}' >&2\nexit 4\n"));
    let kept = |scratch: &Scratch| run(check(scratch, AS_EXPECTED).env("CUDA_PITFALLS", &busy));
    let (code, line) = kept(&scratch);
    assert_eq!(code, Some(2));
    assert!(line.starts_with("kept waiting by the run of process 4711 (user 1000)"), "{line}");
    assert_eq!(status(&scratch), "0 1/1 as expected\n", "what was said before holds");
    let file = state(&scratch).join("status");
    let old = std::time::SystemTime::now() - Duration::from_secs(25 * 3600);
    fs::File::options().write(true).open(&file).and_then(|file| file.set_modified(old)).expect("it is ours");
    for _ in 0..2 {
        let (code, line) = kept(&scratch);
        assert_eq!((code, status(&scratch)), (Some(2), format!("2 {line}")));
        assert!(line.starts_with("no answer for 1440 minutes: kept waiting by the run of process 4711"), "{line}");
        assert!(line.len() <= LIMIT_BYTES, "{line}");
    }
    assert_eq!(run(&mut check(&scratch, AS_EXPECTED)).0, Some(0));
    assert_eq!(status(&scratch), "0 1/1 as expected\n");
}

/// What the health check asks of Slurm, with a stand-in for the check and for `scontrol`.
fn slurm_is_told_what_a_check_says() {
    let scratch = Scratch::new();
    let (at, asked) = (scratch.path(), scratch.path().join("asked"));
    for folder in ["slurm", "node", "bin"] {
        fs::create_dir(at.join(folder)).expect("a folder of our own");
    }
    fs::copy(deploy("slurm/health-check"), at.join("slurm/health-check")).expect("a file of our own");
    // It has nothing yet: neither a comment nor a reason.
    script(&at.join("bin/scontrol"), &format!("#!/bin/sh\n[ $1 != update ] || echo \"$@\" >> {}\n", asked.display()));
    let path = format!("{}:{}", at.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    for (action, code, line, wanted) in [
        (
            "drain",
            1,
            "GPU lost: 7 of 8 can be used",
            "update nodename=n1 reason=cuda-pitfalls: GPU lost: 7 of 8 can be used state=drain\n",
        ),
        (
            "comment",
            1,
            "GPU lost: 7 of 8 can be used",
            "update nodename=n1 comment=cuda-pitfalls: GPU lost: 7 of 8 can be used\n",
        ),
        ("drain", 2, "kept waiting by x", ""),
        (
            "drain",
            2,
            "no answer for 1440 minutes: x",
            "update nodename=n1 comment=cuda-pitfalls: no answer for 1440 minutes: x\n",
        ),
        ("none", 1, "x", ""),
    ] {
        fs::write(&asked, "").expect("a file of our own");
        script(&at.join("node/check"), &format!("#!/bin/sh\necho '{line}'\nexit {code}\n"));
        let mut command = Command::new(at.join("slurm/health-check"));
        command.env("PATH", &path).env("SLURMD_NODENAME", "n1").env("CUDA_PITFALLS_ACTION", action);
        assert_eq!(run(command.env("CUDA_PITFALLS_CONF", at.join("none"))).0, Some(0));
        assert_eq!(read(&asked), wanted, "{action}:{code}:{line}");
    }
}

fn a_check_that_says_nothing_leaves_the_last_answer() {
    let scratch = Scratch::new();
    // No program: nothing can be said, and nothing was said before.
    let none = |scratch: &Scratch| run(check(scratch, AS_EXPECTED).env("CUDA_PITFALLS", "/nonexistent/cuda-pitfalls"));
    let (code, line) = none(&scratch);
    assert_eq!((code, status(&scratch)), (Some(2), format!("2 {line}")));
    assert!(line.starts_with("no report: ") && line.len() <= LIMIT_BYTES, "{line}");
    assert_eq!(run(&mut check(&scratch, NOT_AS_EXPECTED)).0, Some(1));
    let said = status(&scratch);
    assert_eq!(none(&scratch).0, Some(2));
    assert_eq!(status(&scratch), said);
}

fn a_check_ends_in_time() {
    let scratch = Scratch::new();
    let mut check = check(&scratch, "tests/selftest/hang-long.toml");
    let (code, line) = run(check.env("CUDA_PITFALLS_SECONDS", "4").env("CUDA_PITFALLS", PROGRAM));
    assert_eq!(code, Some(2), "{line}");
    assert!(line.contains("PARTIAL") && line.len() <= LIMIT_BYTES, "{line}");
    scratch.assert_no_process_left();
}

fn a_reader_never_sees_a_part() {
    let scratch = Scratch::new();
    assert_eq!(run(&mut check(&scratch, AS_EXPECTED)).0, Some(0));
    let mut writers: Vec<_> =
        (0..2).map(|_| check(&scratch, AS_EXPECTED).stdout(Stdio::null()).spawn().expect("it starts")).collect();
    let mut reads = 0;
    while reads <= 10 || writers.iter_mut().any(|writer| writer.try_wait().expect("it is ours").is_none()) {
        assert!(status(&scratch).ends_with("as expected\n"));
        let metrics = read(&state(&scratch).join("cuda_pitfalls.prom"));
        assert!(metrics.ends_with("} 1\n") && metrics.starts_with("# HELP"), "{metrics}");
        serde_json::from_str::<Value>(&read(&state(&scratch).join("report.json"))).expect("a whole report");
        reads += 1;
    }
}

fn node_problem_detector_is_answered() {
    let config: Value = serde_json::from_str(&read(&deploy("npd/cuda-pitfalls.json"))).expect("JSON");
    validate("npd.schema.json", &config, |config| config["pluginConfig"]["timeout"] = "5".into());
    let seconds =
        |value: &Value| -> u32 { value.as_str().expect("a duration").trim_end_matches('s').parse().expect("seconds") };
    for rule in config["rules"].as_array().expect("rules") {
        assert!(seconds(&rule["timeout"]) <= seconds(&config["pluginConfig"]["timeout"]), "it refuses to start");
        let conditions = config["conditions"].as_array().expect("conditions");
        assert!(conditions.iter().any(|condition| condition["type"] == rule["condition"]), "it refuses to start");
    }
    assert_eq!(config["pluginConfig"]["max_output_length"], LIMIT_BYTES);

    let scratch = Scratch::new();
    let answer = |scratch: &Scratch| {
        let answer = run(Command::new(deploy("npd/status")).env("CUDA_PITFALLS_STATE", state(scratch)));
        assert!(answer.1.len() <= LIMIT_BYTES && answer.1.lines().count() == 1, "{answer:?}");
        answer
    };
    assert_eq!(answer(&scratch), (Some(2), "no check has run\n".into()));
    assert_eq!(run(&mut check(&scratch, AS_EXPECTED)).0, Some(0));
    assert_eq!(answer(&scratch), (Some(0), "1/1 as expected\n".into()));
    assert_eq!(run(&mut check(&scratch, NOT_AS_EXPECTED)).0, Some(1));
    assert_eq!(answer(&scratch).0, Some(1));
    let file = state(&scratch).join("status");
    for (text, code) in
        [("", 2), ("0", 0), ("127 no\n", 2), ("no\n", 2), ("-1 x\n", 2), ("1 a \\n $(id) \"b\" * \n", 1)]
    {
        fs::write(&file, text).expect("it is ours");
        let answer = run(Command::new(deploy("npd/status")).env("CUDA_PITFALLS_STATE", state(&scratch)));
        assert_eq!(answer.0, Some(code), "{text:?}: {answer:?}");
        assert!(!answer.1.contains("uid="), "{answer:?}");
    }
    fs::write(&file, "0 fine\n").expect("it is ours");
    let old = std::time::SystemTime::now() - Duration::from_secs(25 * 3600);
    fs::File::options().write(true).open(&file).and_then(|file| file.set_modified(old)).expect("it is ours");
    assert_eq!(answer(&scratch), (Some(2), "the last check is older than 1440 minutes\n".into()));
}

fn the_readiness_rule_is_about_the_condition() {
    let rule: Value = serde_saphyr::from_str(&read(&deploy("npd/node-readiness-rule.yaml"))).expect("YAML");
    validate("node-readiness-rule.schema.json", &rule, |rule| {
        rule["spec"]["conditions"][0]["requiredStatus"] = false.into()
    });
    let config: Value = serde_json::from_str(&read(&deploy("npd/cuda-pitfalls.json"))).expect("JSON");
    let condition = &rule["spec"]["conditions"][0];
    assert_eq!(condition["type"], config["conditions"][0]["type"]);
    // node-problem-detector sets a condition to True when its rule has found the problem.
    assert_eq!(condition["requiredStatus"], "False");
    assert_eq!(rule["spec"]["dryRun"], true, "nobody's pods are kept away by a file that was only applied");
}

fn gpud_gets_one_flat_object() {
    let plugins: Value = serde_saphyr::from_str(&read(&deploy("gpud/plugins.yaml"))).expect("YAML");
    validate("gpud.schema.json", &plugins, |plugins| plugins[0]["intervall"] = "1h".into());
    let plugin = &plugins[0]["health_state_plugin"];
    let step = plugin["steps"][0]["run_bash_script"]["script"].as_str().expect("a script");
    let paths = plugin["parser"]["json_paths"].as_array().expect("paths");
    let expected: Vec<_> =
        paths.iter().filter(|path| path["expect"].is_object()).map(|path| path["field"].clone()).collect();
    assert_eq!(expected, ["result"], "what makes a node unhealthy");
    assert_eq!(paths[1]["expect"]["regex"], "^(as_expected|unknown)$");

    let scratch = Scratch::new();
    let at = scratch.path().join("check");
    for (code, result, passed) in
        [(0, "as_expected", true), (1, "unexpected", false), (2, "unknown", false), (127, "unknown", false)]
    {
        let line = r#"he said "no" \n \ {x} $(id)"#;
        script(&at, &format!("#!/bin/sh\nprintf '%s\\n' '{line}'\necho noise >&2\nexit {code}\n"));
        // As gpud runs a script.
        let script = format!("set -o pipefail\nset -o nounset\nset -o errexit\n{step}");
        let output = Command::new("bash").args(["-c", &script]).env("CUDA_PITFALLS_CHECK", &at).output().expect("bash");
        assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]), "{code}");
        let object: Value = serde_json::from_slice(&output.stdout).expect("stdout is one JSON document");
        assert_eq!(
            (&object["result"], &object["passed"], &object["reason"]),
            (&result.into(), &passed.into(), &line.into())
        );
        assert!(object.as_object().expect("an object").values().all(|value| !value.is_object() && !value.is_array()));
        for path in paths {
            let field = path["query"].as_str().and_then(|query| query.strip_prefix("$.")).expect("a field");
            assert!(object.get(field).is_some(), "{field}");
        }
    }
}

fn soperator_gets_details_on_descriptor_3() {
    let entry: Value = serde_json::from_str(&read(&deploy("soperator/cuda_pitfalls.sh.json"))).expect("JSON");
    validate("soperator.schema.json", &entry, |entry| entry["on_fail"] = "reboot".into());
    assert_eq!(entry["on_fail"], "comment", "draining is for whoever asks for it");
    let command = entry["command"].as_str().expect("a command");

    let scratch = Scratch::new();
    let (log, at) = (scratch.path().join("log"), scratch.path().join("check"));
    for (code, ended, details) in [(0, 0, ""), (1, 1, "1/1 unexpected: x\n"), (2, 0, ""), (127, 0, "")] {
        script(&at, &format!("#!/bin/sh\necho '1/1 unexpected: x'\nexit {code}\n"));
        // As its runner does: descriptor 3 is what it reads.
        let line = format!("{command} 3>&1 1>\"{}\" 2>&1", log.display());
        let mut bash = Command::new("bash");
        bash.args(["-c", &line]).current_dir(deploy("soperator")).env("CUDA_PITFALLS_CHECK", &at);
        assert_eq!(run(&mut bash), (Some(ended), details.to_owned()), "{code}");
        assert!(read(&log).contains("1/1 unexpected: x"), "the log has it in any case");
    }
}

fn promtool_accepts_the_metrics() {
    let scratch = Scratch::new();
    run(&mut check(&scratch, AS_EXPECTED));
    let real = root().join("reports/h200-x2");
    let real = run(Command::new(PROGRAM).arg("render").arg(real).args(["--as", "prometheus"])).1;
    for metrics in [read(&state(&scratch).join("cuda_pitfalls.prom")), real] {
        let file = scratch.path().join("metrics");
        fs::write(&file, metrics).expect("a file of our own");
        let file = fs::File::open(&file).expect("a file of our own");
        let output = Command::new("promtool").args(["check", "metrics"]).stdin(file).output().expect("promtool starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
