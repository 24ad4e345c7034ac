//! `who`, on processes of each kind on the simulated machine. `who/zoo.py` starts them and looks at them.

use std::sync::OnceLock;

use serde_json::Value;

use crate::common::{PROGRAM, Scratch, against_schema, root};

/// What the processes said of themselves and what `who` printed.
fn run_zoo() -> &'static Value {
    static ZOO: OnceLock<Value> = OnceLock::new();
    ZOO.get_or_init(|| {
        let scratch = Scratch::new();
        let script = root().join("tests/who/zoo.py");
        let (script, folder) = (script.to_string_lossy(), scratch.at(""));
        let words = ["python3", &script, PROGRAM, &folder];
        let ran = scratch.run(&[&["sim", "--gpus", "2", "--"][..], &words].concat());
        let mut zoo = ran.json();
        let metrics = std::fs::read_to_string(scratch.at("who.prom"));
        zoo["metrics"] = metrics.expect("the file of --prometheus").into();
        zoo
    })
}

/// Returns the exit code and what was printed.
fn find_look(name: &str) -> (i64, &'static str) {
    let look = &run_zoo()["outputs"][name];
    let code = look["code"].as_i64().expect("an exit code");
    (code, look["stdout"].as_str().expect("text"))
}

fn parse_look(name: &str) -> Value {
    let (_, text) = find_look(name);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
}

/// Returns `true` if a process could lose its parent in a PID namespace.
fn has_spaces() -> bool {
    let has_spaces = run_zoo()["has_spaces"] == true;
    if !has_spaces {
        eprintln!("NOT TESTED: an orphan needs a PID namespace");
    }
    has_spaces
}

/// Returns the PID of a role, or of its child.
fn find_pid(role: &str, of: &str) -> u64 {
    run_zoo()["says"][role][of].as_u64().expect("a PID")
}

/// Returns the holder with this PID; null if it is not listed.
fn find_holder(document: &Value, pid: u64) -> Value {
    let mut holders = document["holders"].as_array().expect("holders").iter();
    let found = holders.find(|holder| holder["pid"] == pid);
    found.cloned().unwrap_or_default()
}

#[test]
fn every_process_has_its_kind() {
    let document = parse_look("json");
    let is_orphan = has_spaces().then_some("orphan");
    for (role, of, kind, condition, gpus) in [
        ("context", "pid", "context", None, 1),
        ("two", "pid", "context", None, 2),
        ("initialized", "pid", "initialized", None, 0),
        ("forked", "pid", "context", None, 1),
        ("forked", "child", "inherited", None, 0),
        ("left", "child", "inherited", None, 0),
        ("orphan", "pid", "initialized", is_orphan, 0),
        ("stopped", "pid", "context", Some("stopped"), 1),
        ("masked", "pid", "context", Some("mask_changed"), 1),
        ("other", "pid", "context", Some("mask_changed"), 1),
        ("hostile", "pid", "context", None, 1),
    ] {
        let holder = find_holder(&document, find_pid(role, of));
        assert_eq!(holder["kind"], kind, "{role} {of}: {holder}");
        let conditions = holder["conditions"].as_array().expect("conditions");
        let kinds: Vec<_> = conditions.iter().map(|one| one["kind"].as_str()).collect();
        let expected: Vec<_> = condition.into_iter().map(Some).collect();
        assert_eq!(kinds, expected, "{role} {of}");
        let memory = holder["memory"].as_array().map(Vec::len);
        assert_eq!(memory, Some(gpus), "{role} {of}");
        assert_eq!(holder["place"]["id"], "job815x", "{role} {of}");
        assert_eq!(holder["place"]["is_claimed"], true, "{role} {of}");
    }
    for (role, of) in [("left", "pid"), ("unrelated", "pid")] {
        assert_eq!(
            find_holder(&document, find_pid(role, of)),
            Value::Null,
            "{role}"
        );
    }
    let monitor = find_holder(&document, find_pid("nvml", "pid"));
    assert!(
        monitor.is_null() || monitor["kind"] == "nvml_only",
        "{monitor}"
    );
    let masked = find_holder(&document, find_pid("masked", "pid"));
    assert_eq!(masked["opened_gpus"], serde_json::json!([0]));
}

#[test]
fn bytes_of_holders_and_rest_add_up() {
    let document = parse_look("json");
    let gpus = document["gpus"].as_array().expect("GPUs");
    assert_eq!(gpus.len(), 2);
    for gpu in gpus {
        let mut listed = 0;
        for holder in document["holders"].as_array().expect("holders") {
            let memory = holder["memory"].as_array().expect("memory").iter();
            let here = memory.filter(|memory| memory["gpu"] == gpu["index"]);
            listed += here
                .filter_map(|memory| memory["used_bytes"].as_u64())
                .sum::<u64>();
        }
        let parts = ["listed", "driver", "unowned", "used"];
        let number = parts.map(|part| gpu[format!("{part}_bytes")].as_u64().expect("bytes"));
        assert!(listed >= 64 << 20, "{gpu}");
        assert_eq!(number[0], listed, "{gpu}");
        assert_eq!(number[..3].iter().sum::<u64>(), number[3], "{gpu}");
        assert!(number[2] <= 2 << 20, "{gpu}");
    }
}

#[test]
fn times_are_those_of_the_calls() {
    let document = parse_look("json");
    let says = run_zoo()["says"].as_object().expect("roles");
    let mut compared = 0;
    for (role, said) in says {
        for (call, name) in [
            ("init", "cuda_since_unix_ms"),
            ("context", "context_since_unix_ms"),
        ] {
            let Some(times) = said[call].as_array().filter(|_| role != "left") else {
                continue;
            };
            let since = find_holder(&document, find_pid(role, "pid"))[name].as_f64();
            let since = since.unwrap_or_else(|| panic!("{role}: no {name}"));
            // The clock of threads has a resolution of 10 ms, and the boot time that it is added to may be rounded.
            let [from, to] = [0, 1].map(|at| times[at].as_f64().expect("a time") * 1000.0);
            assert!(since > from - 50.0, "{role}: {name} {since} before {from}");
            assert!(since < to + 50.0, "{role}: {name} {since} after {to}");
            compared += 1;
        }
    }
    assert_eq!(compared, 16);
}

#[test]
fn forbidden_things_decide_the_exit_code() {
    let empty = parse_look("empty");
    let policy = &empty["policy"];
    assert_eq!(policy["violations"], serde_json::json!([]), "{policy}");
    // The first process of some containers has more rights than root has in them.
    let has_seen_all = empty["unseen"] == serde_json::json!([]);
    assert_eq!(
        find_look("empty").0,
        if has_seen_all { 0 } else { 3 },
        "{empty}"
    );
    let (code, _) = find_look("holders");
    let found = parse_look("holders");
    let violations = found["policy"]["violations"].to_string();
    assert_eq!(code, 1);
    for (role, of) in [
        ("initialized", "pid"),
        ("left", "child"),
        ("stopped", "pid"),
    ] {
        let words = format!("process {} ", find_pid(role, of));
        assert!(violations.contains(&words), "{role}: {violations}");
    }
    let words = format!("process {} ", find_pid("nvml", "pid"));
    assert!(!violations.contains(&words), "{violations}");
    assert_eq!(find_look("leftover").0, 0, "{}", find_look("leftover").1);
    let orphans = parse_look("orphans")["policy"].to_string();
    let words = format!("process {} ", find_pid("orphan", "pid"));
    assert_eq!(orphans.contains(&words), has_spaces(), "{orphans}");
    assert!(!has_spaces() || find_look("orphans").0 == 1, "{orphans}");
    assert_eq!(find_look("idle").0, 3, "utilization is not simulated");
    let idle = &parse_look("idle")["policy"];
    assert_ne!(
        idle["undecided"].as_array().map(Vec::len),
        Some(0),
        "{idle}"
    );
}

#[test]
fn another_user_sees_what_is_permitted() {
    let found = parse_look("nobody");
    assert_eq!(find_look("nobody").0, 1);
    let holder = find_holder(&found, find_pid("context", "pid"));
    assert_eq!(holder["kind"], "context", "{holder}");
    assert!(holder["memory"][0]["used_bytes"].is_u64(), "{holder}");
    if rustix::process::getuid().is_root() {
        assert_eq!(holder["opened_gpus"], Value::Null);
        assert_eq!(holder["process"]["started_with"], Value::Null);
        let unseen = found["unseen"].to_string();
        assert!(unseen.contains(r#""kind":"unread""#), "{unseen}");
        assert!(unseen.contains(&find_pid("unrelated", "pid").to_string()));
    }
}

#[test]
fn root_without_a_capability_may_not_see_all() {
    if !rustix::process::getuid().is_root() || find_look("without ptrace").0 == 77 {
        eprintln!("NOT TESTED: only root that may mount /proc can hide its processes");
        return;
    }
    let unseen = parse_look("without ptrace")["unseen"].to_string();
    assert!(unseen.contains("hidden_processes"), "{unseen}");
}

#[test]
fn one_process_is_shown_in_full() {
    // Some Pythons have the variables in their C library, others in the program itself.
    for role in ["masked", "other"] {
        let found = parse_look(role);
        let only = &found["holders"][0];
        assert_eq!(only["pid"], find_pid(role, "pid"));
        let masks = ["started_with", "now"].map(|time| {
            let value = &only["process"][time]["CUDA_VISIBLE_DEVICES"];
            value.as_str().expect("a mask")
        });
        assert_eq!(masks, ["0", "1"]);
        assert!(!find_look(role).1.contains("hush"), "{found}");
    }
    let (code, text) = find_look("unrelated");
    assert!(
        code == 0 && text.contains("No problem is visible"),
        "{text}"
    );
    let (_, text) = find_look("hostile");
    assert!(
        text.contains("zoo.py:") && text.contains("in play"),
        "{text}"
    );
}

#[test]
fn simulated_process_without_a_fault_has_none() {
    assert_eq!(find_look("hostile").0, 0, "{}", find_look("hostile").1);
}

#[test]
fn machine_of_a_process_is_found_from_outside() {
    let found = parse_look("outside");
    let only = &found["holders"][0];
    assert_eq!(found["provenance"], "simulated");
    assert_eq!(only["kind"], "context", "{only}");
    assert_eq!(only["memory"].as_array().map(Vec::len), Some(2), "{only}");
}

#[test]
fn texts_of_processes_are_harmless_and_narrow() {
    for name in ["text", "hostile", "unrelated", "redacted text"] {
        let (_, text) = find_look(name);
        assert!(
            text.contains("zoo.py") || text.contains("user 1"),
            "{name}: {text}"
        );
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
            assert!(!line.chars().any(char::is_control), "{name}: {line:?}");
        }
    }
    assert!(
        find_look("text").1.starts_with("****"),
        "it says that it is simulated"
    );
}

#[test]
fn redaction_leaves_no_name_path_or_variable() {
    let (_, text) = find_look("redacted");
    let holders = &parse_look("redacted")["holders"];
    assert_eq!(holders.as_array().map(Vec::len), Some(11));
    let words = "zoo hush A_SECRET job815x pwned \"root\" /usr /tmp /run/ -4000-8000- LD_";
    for word in words.split(' ') {
        assert!(!text.contains(word), "{word}: {text}");
        assert!(
            word.starts_with(['z', '/']) || !find_look("redacted text").1.contains(word),
            "{word}"
        );
    }
}

#[test]
fn documents_match_the_schema() {
    for name in [
        "json", "redacted", "holders", "idle", "masked", "nobody", "empty", "outside",
    ] {
        assert_eq!(against_schema("who", &parse_look(name)), [""; 0], "{name}");
    }
}

#[test]
fn metrics_have_no_text_of_processes() {
    let metrics = run_zoo()["metrics"].as_str().expect("text");
    for gpu in parse_look("metrics")["gpus"].as_array().expect("GPUs") {
        let line = format!(
            "cuda_pitfalls_who_used_bytes{{gpu={}}} {}\n",
            gpu["uuid"], gpu["used_bytes"]
        );
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    for word in ["zoo", "job815x", "python", "pwned", "hush"] {
        assert!(!metrics.contains(word), "{word}: {metrics}");
    }
}

#[test]
fn processes_are_not_touched() {
    assert_eq!(run_zoo()["tracers"], serde_json::json!(["TracerPid:\t0"]));
    let alive = &run_zoo()["alive"];
    assert_eq!(alive.as_array().map(Vec::len), Some(11), "{alive}");
}

#[test]
fn watching_ends_with_ctrl_c() {
    let (code, text) = find_look("watched");
    assert_eq!(code, 130, "{}", run_zoo()["outputs"]["watched"]);
    assert!(text.lines().count() >= 2);
    for line in text.lines() {
        serde_json::from_str::<Value>(line).expect("a document");
    }
}

#[test]
fn file_system_that_never_answers_hides_no_process() {
    let scratch = Scratch::new();
    let script = root().join("tests/who/stuck.py");
    let words = ["sim", "--", "python3", &script.to_string_lossy(), PROGRAM];
    let ran = scratch.run(&words);
    if ran.code == Some(77) {
        eprintln!("NOT TESTED: FUSE cannot be mounted");
        return;
    }
    let found = ran.json();
    let pid = found["pid"].as_u64().expect("a PID");
    let holder = find_holder(&found["who"], pid);
    assert_eq!(holder["kind"], "descriptor_only", "{found}");
    assert_eq!(holder["process"]["now"], Value::Null);
}

#[test]
fn bad_arguments_are_explained() {
    let scratch = Scratch::new();
    for (arguments, says) in [
        (
            &["--forbid", "nothing"][..],
            "leftover>SIZE (such as leftover>64MiB)",
        ),
        (&["--forbid", "leftover>64 cows"], "leftover>SIZE"),
        (&["--on", "auto"], "`cuda`, or `sim`"),
        (&["--watch", "0"], "1..=86400"),
        (&["--over", "banana"], "such as 90s"),
        (&["none"], "PID"),
        (&["4294967295"], "there is no process 4294967295 here"),
        (&["1", "--forbid", "holders"], "leave out the PID"),
    ] {
        let ran = scratch.run(&[&["who"], arguments].concat());
        ran.ended(2, "usage").says(says);
    }
}
