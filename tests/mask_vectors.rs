//! Compares the data set of measured masks with the script that generates it from evidence, and tests the comparison of
//! other projects' parsers on parsers with known mistakes. Nothing is installed here, and no network is used.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cuda_pitfalls::mask;
use serde_json::{Value, json};

use crate::common::{Scratch, read_text, root, script};

const VECTORS: &str = "python/cuda_pitfalls/mask_vectors.json";
const RESULTS: &str = "python/masks/results.json";
const PAGE: &str = "docs/mask-vectors.md";

fn document(path: &str) -> Value {
    serde_json::from_str(&read_text(path)).expect("a committed file is JSON")
}

/// Runs Python with these arguments and this text as its input.
fn python(arguments: &[&str], input: &str, folder: &Path) -> Output {
    let scratch = Scratch::new();
    let file = scratch.file("input", input);
    let mut command = Command::new("python3");
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::from(fs::File::open(file).expect("it was written")));
    command.env(
        "PYTHONPATH",
        format!("{0}/python:{0}/python/masks", root().display()),
    );
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 starts")
}

/// Returns the JSON that Python printed.
fn told(arguments: &[&str], input: &str, folder: &Path) -> Value {
    let output = python(arguments, input, folder);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn each_vector_is_of_listed_evidence_and_what_the_rule_predicts() {
    let vectors = document(VECTORS);
    assert_eq!(
        vectors["schema"],
        json!({ "name": "mask-vectors", "major": 1, "minor": 0 })
    );
    let (machines, evidence) = (
        list(&vectors["machines"]),
        read_text("reports/evidence.sha256"),
    );
    let mut gpus: Vec<Vec<String>> = Vec::new();
    for machine in machines {
        let path = machine["evidence"]["path"]
            .as_str()
            .and_then(|path| path.strip_prefix("reports/"));
        let line = format!(
            "{}  {}\n",
            machine["evidence"]["sha256"].as_str().unwrap_or("?"),
            path.unwrap_or("?")
        );
        assert!(
            evidence.contains(&line),
            "{line} is no line of evidence.sha256"
        );
        gpus.push(
            list(&machine["gpus"])
                .iter()
                .filter_map(|gpu| gpu["uuid"].as_str().map(str::to_owned))
                .collect(),
        );
    }
    for vector in list(&vectors["vectors"]) {
        let gpus = &gpus
            [usize::try_from(vector["machine"].as_u64().expect("an index")).expect("an index")];
        let rule = mask::parse(vector["mask"].as_str(), vector["order"].as_str(), gpus);
        assert_eq!(
            json!([rule.status.name(), rule.gpus]),
            json!([vector["status"], vector["gpus"]]),
            "{vector}"
        );
    }
}

#[test]
fn the_script_writes_the_committed_vectors_and_notices_others() {
    let scratch = Scratch::new();
    let script = root()
        .join("python/masks/make_vectors.py")
        .display()
        .to_string();
    let check = |file: &Path| {
        python(
            &[&script, "--check", "--file", &file.display().to_string()],
            "",
            scratch.path(),
        )
    };
    assert!(check(&root().join(VECTORS)).status.success());
    let other = scratch.path().join("other.json");
    assert!(!check(&other).status.success(), "there is none");
    fs::write(
        &other,
        read_text(VECTORS).replacen("\"gpus\": [0, 1]", "\"gpus\": [1, 0]", 1),
    )
    .expect("a file of our own");
    let output = check(&other);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("is not what the evidence says"),
        "{output:?}"
    );
}

/// Prints the number of vectors of the package below the working folder, and how many of them its rule contradicts.
const AGREES: &str = r#"
import json, sys
sys.path.insert(0, "")
from cuda_pitfalls import mask
found = mask.vectors()
print(json.dumps([len(found), sum(mask.parse(v.mask, v.devices, v.order) != (v.status, v.gpus) for v in found)]))
"#;

#[test]
fn python_has_the_vectors_and_its_rule_agrees_with_each() {
    let count = document(VECTORS)["vectors"].as_array().map_or(0, Vec::len);
    assert_eq!(count, 2372, "docs say how many");
    assert_eq!(
        told(&["-c", AGREES], "", &root().join("python")),
        json!([count, 0])
    );
    // The comparison notices a vector that the rule contradicts.
    let scratch = Scratch::new();
    let package = scratch.path().join("cuda_pitfalls");
    fs::create_dir(&package).expect("a folder of our own");
    for name in ["__init__.py", "mask.py"] {
        fs::copy(
            root().join("python/cuda_pitfalls").join(name),
            package.join(name),
        )
        .expect("a copy of our own");
    }
    let wrong = read_text(VECTORS).replacen("\"gpus\": [0, 1]", "\"gpus\": [1, 0]", 1);
    fs::write(package.join("mask_vectors.json"), wrong).expect("a file of our own");
    assert_eq!(told(&["-c", AGREES], "", scratch.path()), json!([count, 1]));
}

/// The page's lines for the user's own tests, with the rule as the parser: they pass, and fail for a different parser.
#[test]
fn the_lines_of_the_page_run() {
    let page = read_text(PAGE);
    let lines = page
        .split("```python\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("lines of Python");
    let run = |parser: &str| {
        python(
            &["-c", &format!("your_parser = {parser}\n{lines}")],
            "",
            root(),
        )
        .status
        .success()
    };
    assert!(run(
        "lambda value, gpus: list(mask.parse(value, gpus).gpus)"
    ));
    assert!(!run(
        "lambda value, gpus: sorted(mask.parse(value, gpus).gpus)"
    ));
}

#[test]
fn the_page_is_what_the_results_say() {
    let scratch = Scratch::new();
    let script = root()
        .join("python/masks/conformance.py")
        .display()
        .to_string();
    let check = |results: &Path, page: &Path| {
        let (results, page) = (results.display().to_string(), page.display().to_string());
        let output = python(
            &[&script, "--check", "--from", &results, "--page", &page],
            "",
            scratch.path(),
        );
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (results, page) = (root().join(RESULTS), root().join(PAGE));
    assert_eq!(check(&results, &page), (Some(0), String::new()));
    let changed = |name: &str, text: String| {
        fs::write(scratch.path().join(name), text).expect("a file of our own");
        scratch.path().join(name)
    };
    let agreed = document(RESULTS)["projects"][0]["questions"][0]["counts"]["agreed"].to_string();
    let other = changed(
        "results.json",
        read_text(RESULTS).replacen(&format!("\"agreed\": {agreed}"), "\"agreed\": 7", 1),
    );
    assert!(check(&other, &page).1.contains("is out of date"));
    let other = changed(
        "page.md",
        read_text(PAGE).replacen("it agrees with the driver", "it agrees", 1),
    );
    assert!(check(&results, &other).1.contains("is out of date"));
    let sha = document(RESULTS)["vectors"]["sha256"]
        .as_str()
        .expect("a hash")
        .to_owned();
    let other = changed(
        "results.json",
        read_text(RESULTS).replace(&sha, &"0".repeat(64)),
    );
    assert!(check(&other, &page).1.contains("of other vectors"));
    let other = changed(
        "results.json",
        read_text(RESULTS).replace("torch==", "torch==0."),
    );
    assert!(check(&other, &page).1.contains("of other releases"));
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// Runs the parser of a project that does not exist, and a package whose `__init__` and imports need packages that are
/// not installed.
fn ask(parser: &str) -> Value {
    let scratch = Scratch::new();
    let package = scratch.path().join("parsing");
    fs::create_dir(&package).expect("a folder of our own");
    fs::write(
        package.join("__init__.py"),
        "raise RuntimeError('an import that is not needed')",
    )
    .expect("our own");
    let module = format!(
        "import no_such_package\nfrom no_such_other import Base\nclass A(Base): pass\n{parser}"
    );
    fs::write(package.join("masks.py"), module).expect("a file of our own");
    let adapter = r#""""Parsing. How."""
import os, sys
sys.path.insert(0, os.getcwd())
from cuda_pitfalls import mask as rule
from support import NotAsked, Question, alone, mask, ordinals
masks = alone("parsing.masks", "cuda_pitfalls")
MEANS = ""
def setup(uuids):
    masks.uuids = uuids
def question(compared, ask):
    return Question("parse", compared, "", ask, masks, "print()")
def index(i):
    return masks.parse(mask())[i]
QUESTIONS = [
    question("list", lambda _: masks.parse(mask())),
    question("set", lambda _: masks.parse(mask())[::-1]),
    question("count", lambda _: len(masks.parse(mask()))),
    question("ordinals", ordinals(index)),
]
"#;
    fs::write(scratch.path().join("adapter.py"), adapter).expect("a file of our own");
    let vectors = document(VECTORS);
    let uuids: Vec<&Value> = list(&vectors["machines"][0]["gpus"])
        .iter()
        .map(|gpu| &gpu["uuid"])
        .collect();
    let asked: Vec<&Value> = list(&vectors["vectors"])
        .iter()
        .filter(|vector| vector["machine"] == 0)
        .collect();
    let input = json!({ "uuids": uuids, "vectors": asked }).to_string();
    // The answers have larger numbers than Rust reads.
    let count = "import json, subprocess, sys, judge, support; asked = sys.stdin.read(); \
                 command = [sys.executable, support.__file__.replace('support.py', 'ask.py'), 'adapter.py']; \
                 told = json.loads(subprocess.run(command, input=asked, stdout=-1, text=True, check=True).stdout); \
                 vectors = json.loads(asked)['vectors']; \
                 counted = [judge.counted(one, vectors) for one in told['questions']]; \
                 print(json.dumps([{**one, 'kinds': one['kinds'][:1]} for one in counted]))";
    told(&["-c", count], &input, scratch.path())
}

#[test]
fn a_right_parser_agrees_and_wrong_ones_do_not() {
    let right = ask(
        "from cuda_pitfalls.mask import parse as rule\ndef parse(text): return list(rule(text, uuids).gpus)",
    );
    for question in right.as_array().expect("a list") {
        let counts = &question["counts"];
        assert_eq!(
            counts["contradictions"]
                .as_u64()
                .zip(counts["crashes"].as_u64()),
            Some((0, 0)),
            "{question}"
        );
        // Orders that the driver refuses are not asked, and ordinals only where there are GPUs.
        let not_asked = if question["compared"] == "ordinals" {
            1280
        } else {
            16
        };
        assert_eq!(counts["not_asked"], not_asked, "{question}");
        assert_eq!(counts["agreed"], 2185 - not_asked, "{question}");
    }
    let empty = ask("def parse(text): return []");
    assert_eq!(
        empty[0]["counts"],
        json!({
            "agreed": 1264, "contradictions": 905, "crashes": 0, "refused": 0, "not_asked": 16
        })
    );
    assert_eq!(
        empty[0]["kinds"][0]["kind"],
        "lists no GPU although some are visible"
    );
    assert_eq!(empty[3]["counts"]["crashes"], 905, "it has no i-th GPU");
    let integers = ask("def parse(text): return [int(entry) for entry in text.split(',')]");
    let counts = &integers[0]["counts"];
    assert!(
        ["contradictions", "crashes", "refused"]
            .iter()
            .all(|one| counts[one].as_u64() > Some(10)),
        "{counts}"
    );
    let sorted = ask(
        "from cuda_pitfalls.mask import parse as rule\ndef parse(text): return sorted(rule(text, uuids).gpus)",
    );
    assert_eq!(
        sorted[0]["kinds"][0]["kind"],
        "lists the visible GPUs in a different order"
    );
    assert_eq!(
        sorted[0]["kinds"][0]["mask"], "1,0",
        "the first example that people write"
    );
    assert_eq!(
        (&sorted[1]["counts"], &sorted[2]["counts"]),
        (&right[1]["counts"], &right[2]["counts"])
    );
}

/// Each answer of the simulated NVML was measured, or is marked as not measured.
#[test]
fn the_fake_nvml_answers_what_was_measured() {
    let script = r#"
import json, types, support
class Error(Exception): pass
uuids = ["GPU-aa00beef-0000-4000-8000-000000000000", "GPU-ab00beef-0000-4000-8000-000000000000"]
nvml = types.SimpleNamespace(NVMLError=Error, NVML_ERROR_NOT_FOUND=6, NVML_ERROR_INVALID_ARGUMENT=2)
support.Nvml(nvml, uuids)
def asked(call, value):
    try: return getattr(nvml, "nvmlDeviceGet" + call)(value)[1]
    except Error as error: return f"error {error}"
    except support.NotAsked: return "not asked"
u = uuids[1]
print(json.dumps([
    [asked("HandleByUUID", it) for it in (u, u.encode(), "1", u[:12], " " + u, "MIG-" + u + "/1/0")],
    [asked("HandleByUUID", it) for it in (u.upper(), u + "x", "GPU-" + u[4:].replace("-", ""), "MIG-ab00beef")],
    [asked("HandleByIndex", it) for it in (0, 1, 2, -1, 2**32 + 1)],
]))
"#;
    let found = "error 6";
    let wanted = json!([
        [1, 1, found, found, found, found],
        ["not asked", "not asked", "not asked", "not asked"],
        [0, 1, "error 2", "error 2", 1],
    ]);
    assert_eq!(told(&["-c", script], "", root()), wanted);
}

#[test]
fn a_project_that_cannot_be_installed_is_named() {
    let scratch = Scratch::new();
    let uv = scratch.path().join("uv");
    script(
        &uv,
        "#!/bin/sh\n[ \"$1\" = venv ] || { echo 'no such release' >&2; exit 1; }\n",
    );
    let path = format!(
        "{}:{}",
        scratch.path().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let script = root().join("python/masks/conformance.py");
    let results = scratch.path().join("results.json");
    let mut command = Command::new("python3");
    command
        .arg(script)
        .args(["--project", "zea", "--json"])
        .arg(&results)
        .env("PATH", path);
    let output = command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .expect("python3 starts");
    assert_eq!(output.status.code(), Some(1));
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        said.contains("zea      0.1.8    could not be tested"),
        "{said}"
    );
    assert!(
        complained.contains("zea could not be tested: no such release"),
        "{complained}"
    );
    let written: Value = crate::common::read_json(&results);
    assert_eq!(written["projects"][0]["error"], "no such release");
}
