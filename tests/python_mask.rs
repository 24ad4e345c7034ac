//! Compares the Python module `cuda_pitfalls.mask` with the library's rule, on generated masks and on every short mask,
//! and checks that this comparison detects wrong copies of the module. `mask_vectors.rs` has the masks that were
//! measured.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use cuda_pitfalls::mask::{self, Parsed};
use serde_json::{Value, json};

use common::{PROGRAM, Scratch, root, script};

/// Answers each line of stdin, the arguments of `parse` as JSON, with a line of JSON.
const ANSWER: &str = r#"
import json, sys
from cuda_pitfalls.mask import parse
for line in sys.stdin:
    answer = parse(**json.loads(line))
    print(json.dumps([answer.status, list(answer.gpus)]))
"#;

/// A question to the rule.
#[derive(Clone, Debug)]
struct Asked {
    mask: Option<String>,
    order: Option<String>,
    gpus: Vec<String>,
}

impl Asked {
    fn arguments(&self) -> Value {
        json!({ "text": self.mask, "devices": self.gpus, "order": self.order })
    }

    fn answer(&self) -> Value {
        let Parsed { status, gpus } =
            mask::parse(self.mask.as_deref(), self.order.as_deref(), &self.gpus);
        json!([status.name(), gpus])
    }
}

/// Returns the answers of the module below this directory, in order.
fn python(folder: &Path, asked: &[Asked]) -> Result<Vec<Value>, String> {
    let scratch = Scratch::new();
    let input = scratch.path().join("asked");
    let lines: String = asked
        .iter()
        .map(|it| format!("{}\n", it.arguments()))
        .collect();
    fs::write(&input, lines).expect("a file of our own");
    let output = Command::new("python3")
        .args(["-c", ANSWER])
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::from(fs::File::open(&input).expect("it was written")))
        .output()
        .expect("python3 starts");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let answers = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"));
    Ok(answers.collect())
}

/// Returns the questions where the module below this directory gives other answers.
fn differences(folder: &Path, asked: &[Asked], wanted: &[Value]) -> Vec<String> {
    let answers = match python(folder, asked) {
        Ok(answers) => answers,
        Err(why) => return vec![why],
    };
    assert_eq!(answers.len(), asked.len(), "one answer each");
    let pairs = asked
        .iter()
        .zip(wanted)
        .zip(&answers)
        .filter(|((_, wanted), given)| wanted != given);
    pairs
        .map(|((asked, wanted), given)| format!("{asked:?}: {given}, not {wanted}"))
        .collect()
}

/// Returns masks without a measurement: generated ones on 1 to 8 GPUs, some of them with UUIDs that begin alike, and
/// those that Python and Rust read differently by default.
fn others() -> Vec<Asked> {
    let mut all = Vec::new();
    let mut ask = |mask: &str, order: Option<&str>, gpus: &[String]| {
        all.push(Asked {
            mask: Some(mask.to_owned()),
            order: order.map(str::to_owned),
            gpus: gpus.to_vec(),
        });
    };
    for count in [1, 2, 4, 8] {
        let gpus: Vec<String> = (0..count)
            .map(|gpu| format!("GPU-a{}bcDEF0-9d27-4c63-b8f2-06aa71c39d5{gpu}", gpu / 2))
            .collect();
        for template in mask::generate_masks(16, 1500, count) {
            ask(
                &template
                    .fill_uuids(&gpus)
                    .expect("it was generated for so many GPUs"),
                None,
                &gpus,
            );
        }
    }
    const LETTERS: [&str; 13] = [
        "0",
        "1",
        "9",
        "+",
        "-",
        ",",
        " ",
        "\n",
        "x",
        "GPU-",
        "a",
        "4294967296",
        "é",
    ];
    let two = ["GPU-a1", "GPU-b0"].map(String::from);
    let mut masks = vec![String::new()];
    for _ in 0..3 {
        masks = masks
            .iter()
            .flat_map(|mask| LETTERS.map(|letter| format!("{mask}{letter}")))
            .collect();
        masks.iter().for_each(|mask| ask(mask, None, &two));
    }
    let thousands = "0".repeat(5000);
    let foreign = [
        // More digits than Python converts.
        "9".repeat(5000),
        format!("-{}", "9".repeat(5000)),
        format!("{thousands}1"),
        format!("-{thousands}"),
        thousands,
        // Unicode digits and spaces, and letters whose lower case is ASCII.
        "１".into(),
        "0\u{661}".into(),
        "\u{a0}1".into(),
        "\u{1c}1".into(),
        "\u{85}1".into(),
        "1_0".into(),
        "GPU-\u{ff21}".into(),
        "GPU-\u{212a}".into(),
        "GPU-GPU-a1".into(),
        "MIG-GPU-a1".into(),
    ];
    foreign.iter().for_each(|mask| ask(mask, None, &two));
    let odd = ["GPU-GPU-\u{212a}1", "gpu-K1", "GPU-A-1"].map(String::from);
    ["GPU-a", "GPU-a1", "MIG-A1", "0,GPU-a", "GPU-g", "2"]
        .iter()
        .for_each(|mask| ask(mask, None, &odd));
    for order in [
        "FASTEST_FIRST",
        "PCI_BUS_ID",
        "",
        "pci_bus_id",
        "PCI_BUS_ID ",
    ] {
        ask("1", Some(order), &two);
    }
    all.extend([None, Some("0".to_owned())].map(|mask| Asked {
        mask,
        order: None,
        gpus: Vec::new(),
    }));
    all.push(Asked {
        mask: None,
        order: None,
        gpus: two.to_vec(),
    });
    all
}

#[test]
fn python_answers_as_the_library_does() {
    let asked = others();
    assert!(asked.len() > 8000, "{}", asked.len());
    let wanted: Vec<Value> = asked.iter().map(Asked::answer).collect();
    for status in [
        "CUDA_SUCCESS",
        "CUDA_ERROR_NO_DEVICE",
        "CUDA_ERROR_INVALID_DEVICE",
    ] {
        let count = wanted.iter().filter(|answer| answer[0] == status).count();
        assert!(count > 300, "{status}: {count}");
    }
    let found = differences(&root().join("python"), &asked, &wanted);
    assert!(
        found.is_empty(),
        "{} of {}: {:#?}",
        found.len(),
        asked.len(),
        &found[..found.len().min(10)]
    );
}

/// Each of these makes the module wrong; the comparison must notice every one.
const WRONG: [(&str, &str); 15] = [
    ("if gpu in named:", "if False:"),
    ("                break\n", "                continue\n"),
    (
        "_by_ordinal if _digits_of(text) is None",
        "_by_ordinal if \"GPU-\" not in text",
    ),
    ("(\"GPU-\", \"MIG-\")", "(\"GPU-\",)"),
    ("[ \\t\\n\\v\\f\\r]*", "\\\\s*"),
    ("([0-9]*)\")", "(\\\\d*)\")"),
    ("if not zeros and not digits", "if not digits"),
    ("value = -value & _ULONG_MAX", "return None"),
    ("if len(digits) <= 20 else", "if len(digits) <= 5000 else"),
    ("& 0xFFFFFFFF", "& _ULONG_MAX"),
    ("if len(wanted) == _WHOLE:", "if False:"),
    ("if not wanted:", "if False:"),
    (
        "fitting[0] if len(fitting) == 1 else None",
        "fitting[0] if fitting else None",
    ),
    ("wanted += character.lower()", "wanted += character"),
    ("replace(\"-\", \"\").lower()", "replace(\"-\", \"\")"),
];

#[test]
fn a_wrong_module_is_noticed() {
    let module = fs::read_to_string(root().join("python/cuda_pitfalls/mask.py"))
        .expect("the module can be read");
    let asked = others();
    let wanted: Vec<Value> = asked.iter().map(Asked::answer).collect();
    for (right, wrong) in WRONG {
        assert_eq!(
            module.matches(right).count(),
            1,
            "`{right}` is in the module once"
        );
        let scratch = Scratch::new();
        let package = scratch.path().join("cuda_pitfalls");
        fs::create_dir(&package).expect("a folder of our own");
        fs::write(package.join("__init__.py"), "").expect("a file of our own");
        fs::write(package.join("mask.py"), module.replace(right, wrong))
            .expect("a file of our own");
        let found = differences(scratch.path(), &asked, &wanted);
        assert!(
            !found.is_empty(),
            "nobody notices `{wrong}` in place of `{right}`"
        );
    }
}

#[test]
fn the_examples_of_the_module_are_what_it_does() {
    let module = root().join("python/cuda_pitfalls/mask.py");
    let output = Command::new("python3")
        .args(["-m", "doctest", "-v"])
        .arg(&module)
        .output()
        .expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("\n5 passed"),
        "{text}"
    );
}

/// `python -m cuda_pitfalls` is the command of the same name: its output and its exit code.
#[test]
fn the_package_starts_the_program() {
    let scratch = Scratch::new();
    std::os::unix::fs::symlink(PROGRAM, scratch.path().join("cuda-pitfalls"))
        .expect("a link of our own");
    let python = std::env::var("PATH").unwrap_or_default();
    let start = |path: &str, word: &str| {
        let mut command = Command::new("python3");
        command
            .args(["-m", "cuda_pitfalls", "explain", word])
            .env("PYTHONPATH", root().join("python"))
            .env("COLUMNS", "100");
        command
            .env("PATH", path)
            .stdin(Stdio::null())
            .output()
            .expect("python3 starts")
    };
    let path = format!("{}:{python}", scratch.path().display());
    let found = start(&path, "cudaErrorIllegalAddress");
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(
        found.status.success() && text.contains("illegal memory access"),
        "{found:#?}"
    );
    assert_eq!(
        start(&path, "qqqqqqqq").status.code(),
        Some(4),
        "the exit code is the program's"
    );
}

/// `pip install --target` puts the program next to the package, where neither PATH nor Python looks.
#[test]
fn package_finds_adjacent_program_or_explains_installation() {
    let scratch = Scratch::new();
    let folder = scratch.path();
    // A separate environment, because the user who runs the tests may have the program installed.
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(folder.join("env"))
        .status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "python3 makes an environment"
    );
    let package = folder.join("target/cuda_pitfalls");
    fs::create_dir_all(&package).expect("a folder of our own");
    for file in ["__init__.py", "__main__.py"] {
        fs::copy(
            root().join("python/cuda_pitfalls").join(file),
            package.join(file),
        )
        .expect("a copy of our own");
    }
    let start = || {
        let mut command = Command::new(folder.join("env/bin/python3"));
        command
            .args(["-m", "cuda_pitfalls", "--version"])
            .env("PYTHONPATH", folder.join("target"));
        command
            .env("PATH", folder)
            .env("PYTHONUSERBASE", folder)
            .output()
            .expect("python3 starts")
    };
    let missing = start();
    let error = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(1), "{missing:#?}");
    assert!(
        error.contains("neither beside this Python nor on PATH") && error.contains("pip install"),
        "{error}"
    );
    assert!(!error.contains("Traceback"), "{error}");

    let bin = folder.join("target/bin");
    fs::create_dir(&bin).expect("a folder of our own");
    let program = bin.join("cuda-pitfalls");
    script(&program, &format!("#!{}\n", bin.join("absent").display()));
    let broken = start();
    let error = String::from_utf8_lossy(&broken.stderr);
    assert_eq!(broken.status.code(), Some(1), "{broken:#?}");
    assert!(
        error.contains("does not start without glibc") && !error.contains("Traceback"),
        "{error}"
    );

    fs::remove_file(&program).expect("a file of our own");
    std::os::unix::fs::symlink(PROGRAM, &program).expect("a link of our own");
    let found = start();
    assert!(
        found.status.success() && found.stdout.starts_with(b"cuda-pitfalls "),
        "{found:#?}"
    );
}
