//! Programs that `export` writes are compiled and run on the simulated machine, and their exit codes are compared with
//! the verdicts of `run --on sim`. Differences are listed in `differences.txt`, with the reason.
//!
//! A program whose text and expected exit code are in `passed.sha256` has passed, and is not run again; the essential
//! set always is. `EXPORT_ALL=1` runs every program, as the nightly workflow does, and `EXPORT_BLESS=1` does so too and
//! then writes the list, so that it contains only programs that have run and have ended as expected.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Scratch, all_simulated, root};
use cuda_pitfalls::catalogue;
use cuda_pitfalls::export::{Language, Reproducer, write_reproducer};
use cuda_pitfalls::scenario::sha256_hex;
use cuda_pitfalls::simulated;
use cuda_pitfalls::verdict::Kind;

/// The machine of `run --on sim`.
const MACHINE: &str = "h200-x2";
/// List of the programs that have passed: a line each with the digest of the text, the exit code (`-` if none is
/// expected) and the name.
const PASSED: &str = "tests/export/passed.sha256";
/// Minimum number of questions of calls that can be written: the number when this was counted.
const FEWEST_IN_C: usize = 193;
/// The same for Python lines.
const FEWEST_IN_PYTHON: usize = 126;
/// Maximum number of lines of a program of the essential set.
const MOST_LINES: usize = 120;

/// One program.
struct Written {
    name: String,
    language: Language,
    text: String,
}

impl Written {
    /// Returns its line in the list of programs that have passed, with the expected exit code. The version of this
    /// program is not part of the text.
    fn line(&self, expected: Option<&i32>) -> String {
        let code = expected.map_or("-".to_owned(), i32::to_string);
        let text = self.text.replace(
            concat!("cuda-pitfalls ", env!("CARGO_PKG_VERSION")),
            "cuda-pitfalls",
        );
        format!("{}  {code}  {}", sha256_hex(&text), self.name)
    }
}

/// Returns every instance that can be written.
fn written() -> Vec<Written> {
    named(|_| "reproducer")
}

/// Returns the same instances, each by this name of its file.
fn named(stem: impl Fn(&str) -> &str) -> Vec<Written> {
    let scenarios = catalogue::select_scenarios(&[]).expect("the scenarios can be read");
    let mut all = Vec::new();
    for scenario in &scenarios {
        for instance in &scenario.instances {
            let Ok(program) = Reproducer::new(scenario, instance, stem(&scenario.name)) else {
                continue;
            };
            let language = program.language();
            let is_of_lines = scenario.has_python_lines();
            assert_eq!(
                language == Language::Python,
                is_of_lines,
                "{}",
                instance.name
            );
            let Ok(text) = write_reproducer(&program) else {
                continue;
            };
            all.push(Written {
                name: instance.name.clone(),
                language,
                text,
            });
        }
    }
    all
}

/// Returns the names of the essential set.
fn essential() -> BTreeSet<String> {
    let scenarios = catalogue::Selection::new(&[], &[], catalogue::Unselected::Essential)
        .expect("it can be read");
    scenarios
        .instances()
        .map(|(_, instance)| instance.name.clone())
        .collect()
}

/// Returns a simulated machine in a directory: created if it does not exist, and with its state cleared.
fn machine(folder: &Path) -> PathBuf {
    let machine = folder.join("machine");
    let state = machine.join("machine.state");
    match fs::metadata(&state) {
        Ok(before) => {
            let state = fs::File::create(&state).expect("a file of our own");
            state
                .set_len(before.len())
                .expect("it can be as long as before");
        }
        Err(_) => drop(simulated::lay_out(MACHINE, &machine).expect("the machine can be laid out")),
    }
    machine
}

/// Returns the exit code of a program, or the error of the compiler.
fn run(file: &Written, folder: &Path) -> Result<i32, String> {
    let stem = folder.join("reproducer");
    let (source, machine) = (
        stem.with_extension(file.language.extension()),
        machine(folder),
    );
    fs::write(&source, &file.text).expect("a file of our own");
    let mut command = match file.language {
        Language::C => {
            let mut compiler = Command::new("cc");
            compiler
                .args(["-O0", "-Wall", "-Wextra", "-Werror", "-o"])
                .arg(&stem)
                .arg(&source)
                .args(["-ldl", "-lpthread"]);
            let compiled = compiler.output().expect("there is a C compiler");
            if !compiled.status.success() {
                return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
            }
            Command::new("./reproducer")
        }
        Language::Python => {
            let mut python = Command::new("python3");
            python.arg("reproducer.py");
            python
        }
    };
    // By a relative path, as in its header.
    let ran = command
        .current_dir(folder)
        .env("LD_LIBRARY_PATH", &machine)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    ran.status
        .code()
        .filter(|code| matches!(code, 0 | 1 | 77))
        .ok_or_else(|| format!("{:?}: {told}", ran.status))
}

/// Returns the exit code that each instance should have: its verdict on the simulated machine. Instances that are not
/// modeled there, or do not apply, are absent.
fn verdicts() -> BTreeMap<String, i32> {
    let code = |kind: Kind| match kind {
        Kind::Reproduced => Some(0),
        Kind::NotReproduced => Some(1),
        _ => None,
    };
    let scenarios = all_simulated().iter().flat_map(|report| &report.scenarios);
    scenarios
        .filter_map(|one| Some((one.name.clone(), code(one.verdict.kind)?)))
        .collect()
}

/// Runs programs on separate machines, a few at a time: they wait more than they work.
fn run_all<'f>(files: &[&'f Written], folder: &Path) -> Vec<(&'f Written, Result<i32, String>)> {
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let folder = folder.join(format!("worker-{worker}"));
            let (next, ended) = (&next, &ended);
            scope.spawn(move || {
                fs::create_dir(&folder).expect("a folder of our own");
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let code = run(file, &folder);
                    ended.lock().expect("no thread panics").push((*file, code));
                }
            });
        }
    });
    let mut ended = ended.into_inner().expect("no thread panics");
    ended.sort_by_key(|(file, _)| file.name.clone());
    ended
}

#[test]
fn reproducers_end_as_the_verdict_says() {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let (files, expected, essential) = (written(), verdicts(), essential());
    // Lines of a framework need it, and a GPU.
    let files: Vec<&Written> = files
        .iter()
        .filter(|file| file.language == Language::C)
        .collect();
    assert!(
        files.len() >= FEWEST_IN_C,
        "only {} are written",
        files.len()
    );
    let passed = fs::read_to_string(root().join(PASSED)).unwrap_or_default();
    let passed: BTreeSet<&str> = passed.lines().collect();
    let has_passed = |file: &Written| passed.contains(file.line(expected.get(&file.name)).as_str());
    let is_all = is_set("EXPORT_ALL") || is_set("EXPORT_BLESS");
    let is_wanted = |file: &Written| is_all || essential.contains(&file.name) || !has_passed(file);
    let wanted: Vec<&Written> = files
        .iter()
        .copied()
        .filter(|file| is_wanted(file))
        .collect();
    let scratch = Scratch::new();
    let ended = run_all(&wanted, scratch.path());
    let (mut differ, mut broken, mut good) = (Vec::new(), Vec::new(), Vec::new());
    for (file, code) in &ended {
        match (code, expected.get(&file.name)) {
            (Err(why), _) => broken.push(format!("{}: {why}", file.name)),
            (Ok(code), Some(expected)) if code != expected => {
                differ.push(format!("{}: {code} instead of {expected}", file.name));
            }
            (Ok(_), expected) => good.push(file.line(expected)),
        }
    }
    assert!(
        broken.is_empty(),
        "{} are broken:\n{}",
        broken.len(),
        broken.join("\n")
    );
    println!(
        "{} of {} run, {} as expected, {} differ",
        ended.len(),
        files.len(),
        good.len(),
        differ.len()
    );
    if is_set("EXPORT_BLESS") {
        assert!(good.len() > 150, "only {} ended as expected", good.len());
        fs::write(root().join(PASSED), good.join("\n") + "\n").expect("the list can be written");
    }
    let listed =
        fs::read_to_string(root().join("tests/export/differences.txt")).unwrap_or_default();
    let listed = listed.lines().filter(|line| !line.starts_with('#'));
    let told: Vec<&str> = listed
        .filter_map(|line| line.split_once(" -- ").map(|(told, _)| told))
        .collect();
    assert_eq!(
        differ, told,
        "tests/export/differences.txt does not list what differs, each line with ` -- why`"
    );
}

#[test]
fn the_essential_set_is_written_whole_and_short() {
    let (files, essential) = (
        named(|name| name.rsplit('/').next().unwrap_or(name)),
        essential(),
    );
    for name in &essential {
        let file = files.iter().find(|file| file.name == *name);
        let file = file.unwrap_or_else(|| panic!("{name} cannot be written"));
        let lines = file.text.lines().count();
        assert!(lines <= MOST_LINES, "{name} has {lines} lines");
    }
}

/// The programs of Python lines need frameworks. Their syntax can be checked without.
#[test]
fn scripts_of_frameworks_are_python() {
    let scratch = Scratch::new();
    let files = written();
    let scripts: Vec<&Written> = files
        .iter()
        .filter(|file| file.language == Language::Python)
        .collect();
    assert!(
        scripts.len() >= FEWEST_IN_PYTHON,
        "only {} are written",
        scripts.len()
    );
    for (count, file) in scripts.iter().enumerate() {
        fs::write(scratch.path().join(format!("{count}.py")), &file.text)
            .expect("a file of our own");
    }
    let check = "import ast, pathlib, sys\nfor file in pathlib.Path(sys.argv[1]).glob('*.py'): ast.parse(file.read_text(), str(file))";
    let parsed = Command::new("python3")
        .args(["-c", check])
        .arg(scratch.path())
        .output()
        .expect("there is a python3");
    assert!(
        parsed.status.success(),
        "{}",
        String::from_utf8_lossy(&parsed.stderr)
    );
}

/// Python lines that use libcuda by ctypes do on the simulated machine what framework lines do on a GPU.
#[test]
fn lines_of_python_are_run_and_measured() {
    let source = r#"
question = "Does this make a context?"
belief = "No."
needs = { gpus = 2 }
gpus = "all"
effect = [{ at = "look", status = "OK", value = { result = 0 }, contexts = ["gpu1"], memory = { gpu1 = "context", others = "init" } },
          { at = "fails", status = "KeyError", value = { message = "'x'" } },
          { at = "half", value = { sum = { gt = 1 } } }]
[cases.trap]
does = "retain"
python = { needs = [] }
steps = [
  { py = 'import ctypes; cuda = ctypes.CDLL("libcuda.so.1"); context = ctypes.c_void_p()' },
  { py = 'cuda.cuInit(0)', label = "init" },
  { pthread_create = { as = "other" } },
  { py = 'cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)', as_value = "result", label = "look", on = "other" },
  { pthread_join = { actor = "other" } },
  { py = '{}["x"]', label = "fails" },
  { py = '1.5', as_value = "sum", label = "half" },
]
[cases.control]
does = "no retain"
python = { needs = [] }
steps = [
  { py = 'import ctypes; cuda = ctypes.CDLL("libcuda.so.1")' },
  { py = """
def ask():
    return cuda.cuInit(0)
""" },
  { py = 'a = 1; ask()', as_value = "result", label = "look" },
  { py = '{}["x"]', label = "fails" },
  { py = '1.0', as_value = "sum", label = "half" },
]
"#;
    let scenario =
        cuda_pitfalls::scenario::load_scenario("own/lines", "own/lines.toml", source, &[])
            .expect("a valid file");
    let instance = scenario.instances.first().expect("an instance");
    let program = Reproducer::new(&scenario, instance, "lines").expect("it can be written");
    let text = write_reproducer(&program).expect("it can be written");
    let ends = |text: String| {
        let file = Written {
            name: "own/lines".into(),
            language: Language::Python,
            text,
        };
        run(&file, Scratch::new().path())
    };
    assert_eq!(
        ends(text.replace("import ctypes; cuda =", "import no_such_package; cuda =")),
        Ok(77),
        "a package is missing"
    );
    assert_eq!(ends(text), Ok(0));
}

/// Returns the files of an archive by the last part of their names.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let file = fs::File::open(path).expect("the archive is there");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry
            .path()
            .expect("a name")
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).expect("text");
        files.insert(name, text);
    }
    files
}

#[test]
fn a_bundle_has_everything_and_redacted_nothing_of_the_machine() {
    let scratch = Scratch::new();
    let archive = scratch.path().join("bundle.tar.gz");
    let report = root().join("reports/h200-x2");
    let (out, from) = (
        archive.to_string_lossy().into_owned(),
        report.to_string_lossy().into_owned(),
    );
    let arguments = [
        "bundle",
        from.as_str(),
        "set-device-is-eager",
        "--redact",
        "--out",
        out.as_str(),
    ];
    scratch.run(&arguments).good();
    let mode = fs::metadata(&archive)
        .expect("the archive")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "an archive is its maker's alone");
    let files = unpacked(&archive);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let wanted = [
        "issue.md",
        "report.json",
        "set-device-is-eager.c",
        "set-device-is-eager.toml",
    ];
    assert_eq!(names, wanted);
    let file = scratch.at("set-device-is-eager.c");
    scratch.run(&["export", "set-device-is-eager", "--out", &file]);
    let exported = fs::read_to_string(&file).expect("the file");
    assert!(
        exported.contains("&& ./set-device-is-eager; echo $?\n"),
        "it says how it is started"
    );
    assert_eq!(files.get("set-device-is-eager.c"), Some(&exported));
    let issue = files.get("issue.md").expect("a text to paste");
    let first = issue.split("<details>").next().unwrap_or_default();
    assert!(
        first.starts_with("# ") && first.contains("Effect: "),
        "{first}"
    );
    assert!(!first.contains("p = "), "{first}");
    assert!(
        first.lines().count() <= 180,
        "{}:\n{first}",
        first.lines().count()
    );
    let whole: cuda_pitfalls::report::Report = common::read_json(report.join("report.json"));
    let uuids: Vec<&str> = whole
        .machine
        .gpus
        .iter()
        .map(|gpu| gpu.uuid.as_str())
        .collect();
    assert!(!uuids.is_empty());
    for (name, text) in &files {
        assert!(
            !uuids.iter().any(|uuid| text.contains(uuid)),
            "{name} has a UUID"
        );
    }
    let reduced: cuda_pitfalls::report::Report =
        serde_json::from_str(files.get("report.json").expect("a report")).expect("a report still");
    assert_eq!(reduced.scenarios.len(), 1);
    assert!(
        files
            .get("issue.md")
            .is_some_and(|text| text.chars().count() <= 60_000 && text.contains("GPU-00000001"))
    );
    // Every file of a bundle of a simulated report states that it is simulated.
    let (runs, simulated) = (scratch.at("simulated"), scratch.at("simulated.tar.gz"));
    let run = [
        "run",
        "set-device-is-eager",
        "--on",
        "sim:h200-x2",
        "--quick",
    ];
    scratch.run(&[&run[..], &["--out", &runs]].concat()).good();
    let name = "set-device-is-eager";
    scratch
        .run(&["bundle", &runs, name, "--out", &simulated])
        .good();
    for (file, text) in unpacked(Path::new(&simulated)) {
        let said = if file == "report.json" {
            "simulated"
        } else {
            "SIMULATED: "
        };
        assert!(text.contains(said), "{file}: {text}");
    }
    // It is not overwritten, and a scenario that is not in the report cannot be packed.
    scratch.run(&arguments).ended(2, "usage");
    // In a directory of runs, the newest is used.
    let [old, new] = ["mine/a-old", "mine/b-new"].map(|name| scratch.path().join(name));
    for folder in [&old, &new] {
        fs::create_dir_all(folder).expect("a folder");
    }
    fs::write(old.join("report.json"), "no report").expect("a file");
    fs::write(
        new.join("report.json"),
        common::read_document(report.join("report.json")),
    )
    .expect("a report");
    let [mine, other] = ["mine", "other.tar.gz"].map(|name| scratch.at(name));
    assert_eq!(
        scratch
            .run(&["bundle", &mine, "set-device-is-eager", "--out", &other])
            .code,
        Some(0)
    );
    scratch
        .run(&[
            "bundle",
            from.as_str(),
            "no-such-question",
            "--out",
            "other.tar.gz",
        ])
        .ended(2, "usage");
    scratch
        .run(&["export", "device-files-in-the-child"])
        .ended(2, "usage")
        .says("only the worker can run");
}

#[test]
fn bundle_of_a_trace_is_refused_and_names_the_text_to_paste() {
    let scratch = Scratch::new();
    let archive = scratch.at("bundle.tar.gz");
    let given =
        common::read_document(root().join("reports/traces/h200-x2/torch_late_mask/trace.ndjson"));
    let trace = scratch.file("given.ndjson", given);
    scratch
        .run(&["bundle", &trace, "--out", &archive])
        .ended(2, "usage")
        .says("--as markdown");
    assert!(!Path::new(&archive).exists());
    let page = scratch.run(&["render", &trace, "--as", "markdown"]).good();
    assert!(
        page.stdout.contains("CUDA\\_VISIBLE\\_DEVICES"),
        "{}",
        page.stdout
    );
}

#[test]
fn a_report_in_which_nothing_was_measured_is_not_packed() {
    let scratch = Scratch::new();
    // The scenario needs two GPUs.
    scratch
        .simulate("sim:h200-x1", &["mask-after-device-count"], &["--quick"])
        .0
        .ended(5, "skipped");
    let report = scratch.folder().expect("a run");
    for name in [None, Some("mask-after-device-count")] {
        let report = report.to_string_lossy();
        let arguments: Vec<&str> = ["bundle", &*report].into_iter().chain(name).collect();
        scratch
            .run(&arguments)
            .ended(4, "nothing_measured")
            .says("nothing was measured");
    }
}
