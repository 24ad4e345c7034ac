//! The files of `deploy/kubernetes`: they match Kubernetes' own schemas, the pods' commands work, and the chart agrees
//! with the plain manifests.
//!
//! `rendered/` has Helm's rendering of the chart, because Helm is not on every machine. An installed Helm is run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hmac_sha256::Hash;
use jsonschema::Validator;
use serde::Deserialize as _;
use serde_json::Value;

use super::read;
use crate::common::trials::{self, Test};
use crate::common::{PROGRAM, Scratch, bless, eventually, names_in, read_json, root, script};

/// Longer than a check takes on the simulated machine.
const LONGEST: Duration = Duration::from_secs(60);

/// The committed renderings of the chart, and the values that differ from the chart's own.
const RENDERED: [(&str, &str); 2] = [
    ("both.yaml", r#"{"daemonSet":{"enabled":true}}"#),
    (
        "changed.yaml",
        include_str!("kubernetes/changed.values.json"),
    ),
];

pub(crate) fn tests() -> Vec<Test> {
    let tests: [(&'static str, fn()); 7] = [
        ("manifests_are_valid", manifests_are_valid),
        ("wrong_manifests_are_not", wrong_manifests_are_not),
        (
            "the_chart_says_what_the_manifests_say",
            the_chart_says_what_the_manifests_say,
        ),
        ("values_are_checked", values_are_checked),
        (
            "the_pod_of_the_job_prints_its_report",
            the_pod_of_the_job_prints_its_report,
        ),
        (
            "the_pod_of_the_daemonset_checks_and_ends",
            the_pod_of_the_daemonset_checks_and_ends,
        ),
        ("reports_are_collected", reports_are_collected),
    ];
    let mut tests: Vec<Test> = tests
        .map(|(name, run)| Test {
            name,
            missing: None,
            run,
        })
        .into();
    let missing = trials::missing("helm");
    tests.push(Test {
        name: "helm_renders_what_is_committed",
        missing,
        run: helm_renders_what_is_committed,
    });
    tests
}

/// Returns the documents of a YAML file.
fn documents(text: &str) -> Vec<Value> {
    let parsed = serde_norway::Deserializer::from_str(text)
        .map(Value::deserialize)
        .collect::<Result<Vec<Value>, _>>();
    let documents = parsed.unwrap_or_else(|error| panic!("no YAML: {error}\n{text}"));
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect()
}

fn deploy(name: &str) -> PathBuf {
    super::deploy("kubernetes").join(name)
}

fn rendered(name: &str) -> PathBuf {
    root().join("tests/deploy/kubernetes/rendered").join(name)
}

/// Returns Helm's rendering of the chart. The files have no version, so that a release does not change them.
fn read_rendered(name: &str) -> String {
    read(&rendered(name)).replace("VERSION", env!("CARGO_PKG_VERSION"))
}

/// Returns the only document of a plain manifest.
fn manifest(name: &str) -> Value {
    let mut documents = documents(&read(&deploy(name)));
    assert_eq!(documents.len(), 1, "{name}");
    documents.remove(0)
}

/// Returns Kubernetes' own schemas; unknown fields are errors.
fn schema() -> Validator {
    let schema =
        serde_json::from_str(include_str!("kubernetes/schema.json")).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema can be used")
}

fn manifests_are_valid() {
    let schema = schema();
    let mut kinds = Vec::new();
    for (path, text) in [
        ("job.yaml", read(&deploy("job.yaml"))),
        ("daemonset.yaml", read(&deploy("daemonset.yaml"))),
        ("both.yaml", read_rendered("both.yaml")),
        ("changed.yaml", read_rendered("changed.yaml")),
    ] {
        for document in documents(&text) {
            let errors: Vec<String> = schema
                .iter_errors(&document)
                .map(|error| error.to_string())
                .collect();
            assert!(errors.is_empty(), "{path}: {errors:#?}");
            kinds.push(document["kind"].as_str().expect("a kind").to_owned());
        }
    }
    assert_eq!(
        kinds,
        ["Job", "DaemonSet", "DaemonSet", "Job", "DaemonSet", "Job"]
    );
}

fn wrong_manifests_are_not() {
    let schema = schema();
    let changes: [(&str, Value); 6] = [
        ("/spec/completions", "3".into()),
        ("/spec/template/spec/containers/0/args", "essential".into()),
        (
            "/spec/template/spec/topologySpreadConstraints/0/maxSkew",
            Value::Null,
        ),
        (
            "/spec/template/spec/containers/0/env/0/valueFrom",
            serde_json::json!({"field": "spec.nodeName"}),
        ),
        (
            "/spec/template/spec/securityContext",
            serde_json::json!({"runAsNonroot": true}),
        ),
        ("/apiVersion", "batch/v1beta1".into()),
    ];
    for (pointer, value) in changes {
        let mut job = manifest("job.yaml");
        *job.pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer} is not there")) = value;
        assert!(!schema.is_valid(&job), "{pointer}");
    }
}

/// The labels that only a chart has.
const OF_HELM: [&str; 3] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
];

fn without_labels_of_helm(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OF_HELM.contains(&name.as_str()));
            fields.values_mut().for_each(without_labels_of_helm);
        }
        Value::Array(values) => values.iter_mut().for_each(without_labels_of_helm),
        // The Job of the first revision.
        Value::String(text) if text == "cuda-pitfalls-audit-1" => {
            *text = "cuda-pitfalls-audit".into()
        }
        _ => {}
    }
}

fn the_chart_says_what_the_manifests_say() {
    let text = read_rendered("both.yaml");
    let chart = sha256_of_chart();
    for (name, _) in RENDERED {
        assert!(
            read(&rendered(name))
                .lines()
                .next()
                .is_some_and(|line| line.ends_with(&chart)),
            "the chart has changed (SHA-256 {chart}): render {name} again, with Helm on PATH, by \
             CUDA_PITFALLS_BLESS=1 cargo test --test scenarios -- deploy::"
        );
    }
    let by_kind = |documents: Vec<Value>| -> BTreeMap<String, Value> {
        documents
            .into_iter()
            .map(|document| (document["kind"].to_string(), document))
            .collect()
    };
    let mut of_chart = by_kind(documents(&text));
    of_chart.values_mut().for_each(without_labels_of_helm);
    let plain = by_kind(vec![manifest("job.yaml"), manifest("daemonset.yaml")]);
    for (kind, document) in &plain {
        assert_eq!(of_chart.get(kind), Some(document), "{kind}");
    }
}

/// Returns the hash of the chart's files, by their paths and contents, and of the values that it is rendered with.
fn sha256_of_chart() -> String {
    let mut files: Vec<PathBuf> = vec![root().join("tests/deploy/kubernetes/changed.values.json")];
    let mut folders = vec![deploy("chart")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of the repository")
            .flatten()
        {
            if entry.path().is_dir() {
                folders.push(entry.path())
            } else {
                files.push(entry.path())
            }
        }
    }
    files.sort();
    let mut hash = Hash::new();
    for file in files {
        let name = file
            .strip_prefix(root())
            .expect("a file of the repository")
            .to_string_lossy()
            .into_owned();
        let text = read(&file).replace(env!("CARGO_PKG_VERSION"), "VERSION");
        hash.update(format!("{name}\n{}\n{text}", text.len()));
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn helm_renders_what_is_committed() {
    for (name, values) in RENDERED {
        let scratch = Scratch::new();
        let file = scratch.file("values.json", values);
        let output = Command::new("helm")
            .args(["template", "cuda-pitfalls"])
            .arg(deploy("chart"))
            .arg("--values")
            .arg(file)
            .output()
            .expect("helm starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).expect("helm prints text");
        if bless() {
            let head = format!(
                "# What Helm makes of the chart whose SHA-256 is {}",
                sha256_of_chart()
            );
            let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
            fs::write(rendered(name), format!("{head}\n{text}")).expect("it can be written");
        }
        assert_eq!(documents(&text), documents(&read_rendered(name)), "{name}");
    }
}

fn values_are_checked() {
    let schema = read_json(deploy("chart/values.schema.json"));
    let schema = jsonschema::validator_for(&schema).expect("the schema can be used");
    let values = documents(&read(&deploy("chart/values.yaml"))).remove(0);
    assert!(schema.is_valid(&values));
    for (name, values) in RENDERED {
        assert!(
            schema.is_valid(&serde_json::from_str(values).expect("JSON")),
            "{name}"
        );
    }
    for wrong in [
        r#"{"job":{"nodes":0}}"#,
        r#"{"jobs":{}}"#,
        r#"{"daemonSet":{"hostPath":"tmp"}}"#,
        r#"{"image":{"tag":"1"}}"#,
    ] {
        assert!(
            !schema.is_valid(&serde_json::from_str(wrong).expect("JSON")),
            "{wrong}"
        );
    }
}

/// Returns a separate directory with the two programs of the image.
fn image() -> Scratch {
    let scratch = Scratch::new();
    let containerfile = read(&root().join("Containerfile"));
    assert!(
        containerfile
            .contains("install deploy/node/check /image/usr/local/bin/cuda-pitfalls-check")
    );
    fs::create_dir(scratch.path().join("bin")).expect("a folder of our own");
    let check = root().join("deploy/node/check");
    for (name, program) in [
        ("cuda-pitfalls", Path::new(PROGRAM)),
        ("cuda-pitfalls-check", &check),
    ] {
        std::os::unix::fs::symlink(program, scratch.path().join("bin").join(name))
            .expect("a link of our own");
    }
    scratch
}

/// Returns the command of a manifest's container, with paths of the container replaced by those of this test.
fn container(scratch: &Scratch, name: &str, arguments: &[&str]) -> Command {
    let manifest = manifest(name);
    let container = &manifest["spec"]["template"]["spec"]["containers"][0];
    let own = |path: &str| scratch.at(path);
    let words = container["command"]
        .as_array()
        .expect("a command")
        .iter()
        .map(|word| {
            let word = word.as_str().expect("a word");
            word.replace("/dev/termination-log", &own("termination-log"))
                .replace("/tmp/reports", &own("reports"))
        });
    let words: Vec<String> = words.collect();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(arguments)
        .env("PATH", format!("{}:{path}", own("bin")))
        .env("TMPDIR", scratch.path());
    for variable in container["env"].as_array().expect("variables") {
        let value = variable["value"].as_str().unwrap_or("gpu-node-7");
        let value = value.replace("/var/lib/cuda-pitfalls", &own("state"));
        command.env(variable["name"].as_str().expect("a name"), value);
    }
    command.stdin(Stdio::null());
    command
}

/// Questions that the simulated machine answers at once.
const SIMULATED: [&str; 5] = [
    "visibility/empty-mask-hides-all",
    "--on",
    "sim:h200-x2",
    "--repeat",
    "1",
];

fn the_pod_of_the_job_prints_its_report() {
    let scratch = image();
    let output = container(&scratch, "job.yaml", &SIMULATED)
        .output()
        .expect("sh starts");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "a pod's log has both, and must be the report alone"
    );
    let report: Value =
        serde_json::from_slice(&output.stdout).expect("the log is one JSON document");
    assert_eq!(report["run"]["labels"]["node"], "gpu-node-7");
    assert_eq!(report["complete"], true);
    let message = read(&scratch.path().join("termination-log"));
    assert!(message.ends_with("exit 0 (ok)\n"), "{message}");
    // The program accepts the arguments of the manifest itself.
    let job = manifest("job.yaml");
    let arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .expect("arguments")
        .clone();
    let arguments: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
    let output = container(
        &scratch,
        "job.yaml",
        &[&arguments[..], &["--on", "sim", "--dry-run"]].concat(),
    )
    .output();
    assert_eq!(output.expect("sh starts").status.code(), Some(0));
}

fn the_pod_of_the_daemonset_checks_and_ends() {
    let scratch = image();
    let mut command = container(&scratch, "daemonset.yaml", &[]);
    command
        .env("CUDA_PITFALLS_ARGUMENTS", SIMULATED.join(" "))
        .stdout(Stdio::piped());
    command.env("CUDA_PITFALLS_CONF", scratch.path().join("none"));
    let mut child = command.spawn().expect("sh starts");
    let state = scratch.path().join("state");
    eventually("the check has kept its status", LONGEST, || {
        state.join("status").exists().then_some(())
    });
    assert_eq!(
        read(&state.join("status")),
        "2 SIMULATED: 1/1 as expected\n",
        "it says nothing of the node"
    );
    assert!(state.join("report.json").exists() && state.join("cuda_pitfalls.prom").exists());
    // While it waits for the next check, an hour later.
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a PID is not 0");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
    let ended = eventually("the pod that was told to end", LONGEST, || {
        child.try_wait().expect("it is ours")
    });
    assert_eq!(ended.code(), Some(0));
}

fn reports_are_collected() {
    let scratch = image();
    let at = scratch.path();
    let arguments = [&SIMULATED[..], &["--compact", "--label", "node=n1"]].concat();
    let output = container(&scratch, "job.yaml", &arguments)
        .output()
        .expect("sh starts");
    fs::write(at.join("report"), output.stdout).expect("a file of our own");
    let pods = "u a-0-x Succeeded n1\nu a-1-x Failed n2\nu a-2-x Running n3\nu a-3-x Pending \nu a-4-x Failed n5\n\
                evil strangers-x Succeeded n1\n orphan-x Succeeded n4\nu a-5-x Succeeded n6\nu a-6-x Succeeded n6\n";
    // `kubectl`, as far as the script calls it: a pod that failed may have printed a report, or nothing.
    script(
        &at.join("bin/kubectl"),
        &format!(
            "#!/bin/sh\necho \"$@\" >> {0}/calls\ncase \"$1 $2\" in\n  \
             'get job') case \"$*\" in *metadata.uid*) echo u; exit ;; esac; [ -e {0}/asked ] && echo FailureTarget || : > {0}/asked ;;\n  'get nodes') printf 'n1\\nn2\\nn3\\nn4\\nn5\\nn6\\n' ;;\n  \
             'get pods') printf '{pods}' ;;\n  'logs a-4-x') ;;\n  logs*) cat {0}/report ;;\n  *) exit 9 ;;\nesac\n",
            at.display()
        ),
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(deploy("collect"))
        .arg(at.join("out"))
        .env("PATH", format!("{}:{path}", at.join("bin").display()))
        .env("INTERVAL", "0")
        .env("CUDA_PITFALLS_MERGE", "--simulated")
        .output()
        .expect("the script starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(3),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for node in ["n3", "n4", "n5", "n6"] {
        assert!(said.contains(&format!("no report from {node}\n")), "{said}");
    }
    assert_eq!(names_in(at.join("out/reports")), ["n1.json", "n2.json"]);
    assert!(
        names_in(at.join("out"))
            .iter()
            .all(|name| !name.starts_with('.')),
        "parts are removed"
    );
    let fleet: Value = read_json(at.join("out/fleet.json"));
    assert_eq!(fleet["expected"]["machines"], 6, "{fleet}");
    let calls = read(&at.join("calls"));
    assert!(
        calls.contains("batch.kubernetes.io/job-name=cuda-pitfalls-audit "),
        "{calls}"
    );
    assert_eq!(
        calls.matches("get job cuda-pitfalls-audit ").count(),
        3,
        "it waits for the end: {calls}"
    );
    assert!(
        !calls.contains("logs a-2-x"),
        "a pod that runs has not printed its report"
    );
    for pod in ["strangers-x", "orphan-x", "a-5-x", "a-6-x"] {
        assert!(
            !calls.contains(&format!("logs {pod}")),
            "{pod} is a stranger's, or one of two on a node: {calls}"
        );
    }
}
