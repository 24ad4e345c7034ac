//! What `export` writes is compiled and run on the simulated machine, and its exit code compared with
//! the verdict of `run --on sim`. What differs is listed in `differences.txt`, with the reason.
//!
//! `EXPORT_ONLY=mask-after cargo test --test suite -- export:: --nocapture` runs some of them, `EXPORT_SHOW=1`
//! prints their tables.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use common::{Scratch, all_simulated, root};
use cuda_pitfalls::catalogue;
use cuda_pitfalls::export::{Language, Reproducer, plain, reproducer};
use cuda_pitfalls::simulated;
use cuda_pitfalls::verdict::Kind;

/// The machine that `run --on sim` stands for.
const MACHINE: &str = "h200-x2";

/// One file that was written.
struct Written {
    name: String,
    language: Language,
    text: String,
    uses_toolkit: bool,
}

/// Every instance of scenarios of C calls, in each language that it can be written in.
fn written() -> Vec<Written> {
    let scenarios = catalogue::select(&[]).expect("the scenarios can be read");
    let mut all = Vec::new();
    for (scenario, instance) in scenarios.iter().flat_map(|it| it.instances.iter().map(move |instance| (it, instance)))
    {
        if scenario.has_python_lines() {
            continue;
        }
        for language in Language::ALL {
            let Ok(text) = Reproducer::of(scenario, instance, None).and_then(|it| reproducer(&it, language)) else {
                continue;
            };
            let toolkit = ["nvrtc", "cublas", "cufft", "nccl"];
            let steps = || instance.cases.iter().flat_map(|case| &case.steps);
            let uses_toolkit = steps().any(|step| toolkit.iter().any(|start| step.call.starts_with(start)));
            all.push(Written { name: instance.name.clone(), language, text, uses_toolkit });
        }
    }
    all
}

/// A simulated machine in a folder: laid out if it is not there, and with nothing on it.
fn machine(folder: &Path) -> PathBuf {
    let machine = folder.join("machine");
    let state = machine.join("machine.state");
    match fs::metadata(&state) {
        Ok(before) => {
            let state = fs::File::create(&state).expect("a file of our own");
            state.set_len(before.len()).expect("it can be as long as before");
        }
        Err(_) => drop(simulated::lay_out(MACHINE, &machine).expect("the machine can be laid out")),
    }
    machine
}

/// The interpreter itself: what PATH has may be a script that looks for it each time.
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        String::from_utf8_lossy(&asked.expect("there is a python3").stdout).trim().to_owned()
    })
}

/// How a file ended, or what the compiler said.
fn run(file: &Written, folder: &Path) -> Result<i32, String> {
    let stem = folder.join("reproducer");
    let (source, machine) = (stem.with_extension(file.language.extension()), machine(folder));
    fs::write(&source, &file.text).expect("a file of our own");
    let mut command = match file.language {
        Language::C => {
            let mut compiler = Command::new("cc");
            compiler.args(["-std=gnu11", "-O0", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&stem).arg(&source);
            if file.uses_toolkit {
                // Nothing to link with: that it compiles is all that can be told here.
                compiler.arg("-c");
            } else {
                compiler.arg("-L").arg(&machine).args(["-lcudart", "-lcuda", "-lnvidia-ml", "-lpthread", "-ldl"]);
            }
            let compiled = compiler.output().expect("there is a C compiler");
            let said = String::from_utf8_lossy(&compiled.stderr);
            if !compiled.status.success()
                && said.contains("undefined reference")
                && !said.replace("collect2: error:", "").contains("error:")
            {
                // The simulated machine lacks the function.
                return Ok(-1);
            }
            if !compiled.status.success() {
                return Err(said.into_owned());
            }
            if file.uses_toolkit {
                return Ok(-1);
            }
            Command::new(&stem)
        }
        Language::Python => {
            let mut python = Command::new(python());
            python.arg(&source);
            python
        }
    };
    let ran = command.env("LD_LIBRARY_PATH", &machine).stdin(Stdio::null()).output().expect("it starts");
    let told = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if std::env::var_os("EXPORT_SHOW").is_some() {
        println!("=== {} ({})\n{told}", file.name, file.language.name());
    }
    ran.status.code().filter(|code| (0..=2).contains(code)).ok_or_else(|| format!("{:?}: {told}", ran.status))
}

/// The exit code that each instance should have: its verdict on the simulated machine. What is not
/// modelled there, or does not apply, has none.
fn verdicts() -> BTreeMap<String, i32> {
    let code = |kind: Kind| match kind {
        Kind::Reproduced => Some(0),
        Kind::NotReproduced => Some(1),
        _ => None,
    };
    all_simulated().scenarios.iter().filter_map(|one| Some((one.name.clone(), code(one.verdict.kind)?))).collect()
}

#[test]
fn reproducers_end_as_the_verdict_says() {
    let only = std::env::var("EXPORT_ONLY").ok();
    let mut files = written();
    if let Some(only) = &only {
        files.retain(|file| format!("{} {}", file.name, file.language.name()).contains(only.as_str()));
    }
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let scratch = Scratch::new();
    let expected = std::thread::scope(|scope| {
        // They wait more than they work.
        for worker in 0..4 {
            let folder = scratch.path().join(format!("worker-{worker}"));
            let (files, next, ended) = (&files, &next, &ended);
            scope.spawn(move || {
                fs::create_dir(&folder).expect("a folder of our own");
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let code = run(file, &folder);
                    ended.lock().expect("no thread panics").insert((file.name.clone(), file.language), code);
                }
            });
        }
        verdicts()
    });
    let ended = ended.into_inner().expect("no thread panics");
    let (mut compared, mut differ, mut broken) = (0, Vec::new(), Vec::new());
    for ((name, language), code) in &ended {
        match (code, expected.get(name)) {
            (Err(why), _) => broken.push(format!("{name} ({}): {why}", language.name())),
            (Ok(-1), _) | (_, None) => {}
            (Ok(code), Some(expected)) => {
                compared += 1;
                if code != expected {
                    differ.push(format!("{name} {}: {code} instead of {expected}", language.name()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} are broken:\n{}", broken.len(), broken.join("\n"));
    println!("{} files, {compared} compared, {} differ", ended.len(), differ.len());
    let listed = fs::read_to_string(root().join("tests/export/differences.txt")).unwrap_or_default();
    let listed: Vec<&str> = listed.lines().filter(|line| !line.starts_with('#')).collect();
    if only.is_none() {
        assert!(compared > 100, "only {compared} were compared");
        let told: Vec<&str> = listed.iter().filter_map(|line| line.split_once(" -- ").map(|(told, _)| told)).collect();
        assert_eq!(differ, told, "tests/export/differences.txt does not list what differs, each line with ` -- why`");
        assert!(differ.len() * 20 <= compared, "{} of {compared} differ", differ.len());
    } else {
        println!("{}", differ.join("\n"));
    }
}

/// A killed child ends some time after the kill, and only then does the driver begin to clean up.
#[test]
fn what_is_asked_of_a_zombie_waits_for_its_end() {
    let files: Vec<Written> = written().into_iter().filter(|file| file.name == "process/zombie-holds-memory").collect();
    assert_eq!(files.len(), 2, "in both languages");
    for file in &files {
        assert_eq!(run(file, Scratch::new().path()), Ok(1), "{}", file.language.name());
    }
}

/// The files of Python lines need frameworks. That they are Python can be told without.
#[test]
fn scripts_of_frameworks_are_python() {
    let scratch = Scratch::new();
    let scenarios = catalogue::select(&[]).expect("the scenarios can be read");
    let mut count = 0;
    for scenario in scenarios.iter().filter(|scenario| scenario.has_python_lines()) {
        let Some(instance) = scenario.instances.first() else { continue };
        let Ok(text) = Reproducer::of(scenario, instance, None).and_then(|it| reproducer(&it, Language::Python)) else {
            continue;
        };
        let refused = Reproducer::of(scenario, instance, None).and_then(|it| reproducer(&it, Language::C));
        assert!(refused.is_err_and(|why| why.to_string().contains("Python")), "{}", scenario.name);
        fs::write(scratch.path().join(format!("{count}.py")), text).expect("a file of our own");
        count += 1;
    }
    assert!(count > 70, "only {count} are written");
    let check = "import ast, pathlib, sys\nfor file in pathlib.Path(sys.argv[1]).glob('*.py'): ast.parse(file.read_text(), str(file))";
    let parsed = Command::new("python3").args(["-c", check]).arg(scratch.path()).output().expect("there is a python3");
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
}

/// Lines that use libcuda by ctypes do on the simulated machine what lines of a framework do on a GPU.
#[test]
fn lines_of_python_are_run_and_measured() {
    let source = r#"
question = "Does this make a context?"
belief = "No."
needs = { gpus = 2 }
gpus = "all"
effect = [{ at = "look", status = "OK", value = { result = 0 }, contexts = ["gpu1"], memory = { gpu1 = "context", others = "touch" } },
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
    let scenario = cuda_pitfalls::scenario::load("own/lines", "own/lines.toml", source, &[]).expect("a valid file");
    let instance = scenario.instances.first().expect("an instance");
    let ends = |only: Option<&str>| {
        let program = Reproducer::of(&scenario, instance, only).expect("it can be written");
        let text = reproducer(&program, Language::Python).expect("it can be written");
        let scratch = Scratch::new();
        let file = Written { name: "own/lines".into(), language: Language::Python, text, uses_toolkit: false };
        run(&file, scratch.path())
    };
    assert_eq!(ends(None), Ok(0));
    assert_eq!(ends(Some("trap")), Ok(0));
    assert_eq!(ends(Some("control")), Ok(1), "the effect does not show in the control");
    // What the lines need is looked for before anything is measured: an import that fails is no answer.
    for (needs, end) in [
        (r#""python >= 3.8, < 99, != 2""#, 0),
        (r#""python >= 99""#, 2),
        (r#""no-such-package", "python""#, 2),
        (r#""no-such-package | json""#, 0),
    ] {
        let source = source.replacen("needs = []", &format!("needs = [{needs}]"), 1);
        let scenario =
            cuda_pitfalls::scenario::load("own/needs", "own/needs.toml", &source, &[]).expect("a valid file");
        let instance = scenario.instances.first().expect("an instance");
        let program = Reproducer::of(&scenario, instance, None).expect("it can be written");
        let text = reproducer(&program, Language::Python).expect("it can be written");
        let file = Written { name: "own/needs".into(), language: Language::Python, text, uses_toolkit: false };
        assert_eq!(run(&file, Scratch::new().path()), Ok(end), "{needs}");
    }
}

/// The files of an archive by the last part of their names.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let file = fs::File::open(path).expect("the archive is there");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").file_name().expect("a file").to_string_lossy().into_owned();
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
    let (out, from) = (archive.to_string_lossy().into_owned(), report.to_string_lossy().into_owned());
    let arguments = ["bundle", from.as_str(), "set-device-is-eager", "--redact", "--out", out.as_str()];
    let ran = scratch.run(&arguments);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let files = unpacked(&archive);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let wanted = [
        "issue.md",
        "report.json",
        "set-device-is-eager-plain.c",
        "set-device-is-eager-plain.py",
        "set-device-is-eager.c",
        "set-device-is-eager.py",
        "set-device-is-eager.toml",
    ];
    assert_eq!(names, wanted);
    let file = scratch.path().join("set-device-is-eager.py");
    scratch.run(&["export", "set-device-is-eager", "--as", "python", "--out", &file.to_string_lossy()]);
    let exported = fs::read_to_string(&file).expect("the file");
    assert!(exported.contains("\npython3 set-device-is-eager.py; echo $?\n"), "it says how it is started");
    assert_eq!(files.get("set-device-is-eager.py"), Some(&exported));
    let issue = files.get("issue.md").expect("a text to paste");
    let first = issue.split("<details>").next().unwrap_or_default();
    assert!(first.starts_with("# ") && first.contains("Look for: "), "{first}");
    assert!(!first.contains("p = "), "{first}");
    assert!(first.lines().count() <= 80, "{}:\n{first}", first.lines().count());
    let whole = fs::read_to_string(report.join("report.json")).expect("the committed report");
    let whole: cuda_pitfalls::report::Report = serde_json::from_str(&whole).expect("a report");
    let uuids: Vec<&str> = whole.machine.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    assert!(!uuids.is_empty());
    for (name, text) in &files {
        assert!(!uuids.iter().any(|uuid| text.contains(uuid)), "{name} has a UUID");
    }
    let reduced: cuda_pitfalls::report::Report =
        serde_json::from_str(files.get("report.json").expect("a report")).expect("a report still");
    assert_eq!(reduced.scenarios.len(), 1);
    assert!(files.get("issue.md").is_some_and(|text| text.chars().count() <= 60_000 && text.contains("GPU-00000001")));
    // It is not written over, and what is not in the report cannot be packed.
    scratch.run(&arguments).ended(2, "usage");
    scratch.run(&["bundle", from.as_str(), "no-such-question", "--out", "other.tar.gz"]).ended(2, "usage");
    scratch.run(&["export", "mask-after-dlopen", "--as", "c"]).ended(2, "usage");
}

#[test]
fn a_bundle_of_a_trace_has_the_line_the_proof_and_no_path() {
    let scratch = Scratch::new();
    let archive = scratch.path().join("bundle.tar.gz").to_string_lossy().into_owned();
    let given =
        fs::read_to_string(root().join("reports/traces/h200-x2/torch_late_mask/trace.ndjson")).expect("a trace");
    assert!(given.contains("\"folder\":\"(redacted)\""), "the committed trace is redacted");
    let given = given.replacen("\"folder\":\"(redacted)\"", "\"folder\":\"/home/alice/project\"", 1);
    let trace = scratch.path().join("given.ndjson");
    fs::write(&trace, given).expect("a file of our own");
    let trace = trace.to_string_lossy().into_owned();
    let ran = scratch.run(&["bundle", &trace, "--redact", "--issue", "pytorch", "--out", &archive]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let mode = fs::metadata(&archive).expect("the archive").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a trace is its maker's alone, and so is an archive of it");
    let files = unpacked(Path::new(&archive));
    for name in ["trace.ndjson", "trace.html", "summary.json", "issue.md"] {
        assert!(files.contains_key(name), "{name}: {:?}", files.keys());
    }
    let issue = files.get("issue.md").expect("a text to paste");
    assert!(issue.starts_with("Title: CUDA\\_VISIBLE\\_DEVICES"), "{issue}");
    assert!(issue.contains("python3 mask-after-cuinit.py") && files.contains_key("mask-after-cuinit.py"), "{issue}");
    assert!(files.values().all(|text| !text.contains("/home/alice")));
    // It can be read again, and it is refused where it makes no sense.
    let path = scratch.path().join("trace.ndjson");
    fs::write(&path, files.get("trace.ndjson").expect("the trace")).expect("a file of our own");
    assert_eq!(scratch.run(&["render", &path.to_string_lossy()]).code, Some(0));
    scratch.run(&["bundle", &trace, "mask-after-cuinit", "--out", "other.tar.gz"]).ended(2, "usage");
}

#[test]
fn a_report_in_which_nothing_was_measured_is_not_packed() {
    let scratch = Scratch::new();
    // It needs two GPUs.
    scratch.simulate("sim:h200-x1", &["mask-after-device-count"], &["--quick"]).0.ended(5, "skipped");
    let report = fs::read_dir(scratch.reports()).expect("a run").flatten().next().expect("a folder").path();
    for name in [None, Some("mask-after-device-count")] {
        let report = report.to_string_lossy();
        let arguments: Vec<&str> = ["bundle", &*report].into_iter().chain(name).collect();
        let ran = scratch.run(&arguments);
        ran.ended(4, "nothing_measured");
        assert!(ran.stderr.contains("nothing was measured"), "{}", ran.stderr);
    }
}

/// Every instance that can be said plainly, in each language.
fn plainly() -> Vec<Written> {
    let scenarios = catalogue::select(&[]).expect("the scenarios can be read");
    let instances = scenarios.iter().flat_map(|it| it.instances.iter().map(move |instance| (it, instance)));
    let both = instances.flat_map(|(scenario, instance)| Language::ALL.map(|language| (scenario, instance, language)));
    both.filter_map(|(scenario, instance, language)| {
        let text = Reproducer::of(scenario, instance, None).and_then(|it| plain(&it, language)).ok()?;
        Some(Written { name: instance.name.clone(), language, text, uses_toolkit: false })
    })
    .collect()
}

#[test]
fn plain_reproducers_compile_and_have_no_harness() {
    let scratch = Scratch::new();
    let files = plainly();
    let count = |language| files.iter().filter(|file| file.language == language).count();
    assert!(
        count(Language::C) >= 60 && count(Language::Python) >= 100,
        "{} {}",
        count(Language::C),
        count(Language::Python)
    );
    let once = files.iter().find(|file| file.name.starts_with("context/first-call-makes-one")).expect("it is plain");
    let sought = once.text.lines().rfind(|line| line.contains("Look for: ")).expect("what to look for");
    assert_eq!(sought.matches("has grown by a context").count(), 1, "contexts and memory say the same: {sought}");
    let mut wrong = Vec::new();
    let (mut c_files, mut python_files) = (Vec::new(), Vec::new());
    for (index, file) in files.iter().enumerate() {
        for of_harness in ["fork(", "orders", "effect(run", "begin(", "seen."] {
            assert!(!file.text.contains(of_harness), "{} has `{of_harness}`:\n{}", file.name, file.text);
        }
        assert!(file.text.contains("Look for: ") && file.text.contains("Written by cuda-pitfalls"), "{}", file.text);
        let path = scratch.path().join(format!("plain-{index}.{}", file.language.extension()));
        fs::write(&path, &file.text).expect("a file of our own");
        if file.language == Language::C { &mut c_files } else { &mut python_files }.push((file, path));
    }
    for (file, path) in &c_files {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]).arg(path);
        let compiled = compiler.output().expect("there is a C compiler");
        if !compiled.status.success() {
            wrong.push(format!("{}\n{}", file.name, String::from_utf8_lossy(&compiled.stderr)));
        }
    }
    let parse = "import ast, sys\nfor path in sys.argv[1:]:\n    ast.parse(open(path).read(), path)";
    let parsed = Command::new(python()).args(["-c", parse]).args(python_files.iter().map(|(_, path)| path)).output();
    let parsed = parsed.expect("there is a python3");
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), c_files.len(), wrong.join("\n"));
}

#[test]
fn a_plain_reproducer_shows_the_effect_on_the_simulated_machine() {
    let scratch = Scratch::new();
    let machine = machine(scratch.path());
    for language in ["c", "python"] {
        let arguments = ["export", "mask-after-device-count", "--plain", "--as", language];
        let written = scratch.run(&arguments);
        assert_eq!(written.code, Some(0), "{written:#?}");
        let source = scratch.path().join("plain").with_extension(language);
        fs::write(&source, &written.stdout).expect("a file of our own");
        let mut program = Command::new(python());
        program.arg(&source);
        if language == "c" {
            let made = scratch.path().join("plain");
            let mut compiler = Command::new("cc");
            compiler.arg("-o").arg(&made).arg(&source).arg("-L").arg(&machine);
            let compiled = compiler.args(["-lcudart", "-lcuda", "-lnvidia-ml", "-ldl"]).output().expect("a compiler");
            assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
            program = Command::new(&made);
        }
        let ran = program.env("LD_LIBRARY_PATH", &machine).env_remove("CUDA_VISIBLE_DEVICES").output();
        let ran = ran.expect("it starts");
        let text = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
        // Both GPUs are counted after the mask was set to one of them.
        assert_eq!(text.matches("count = 2").count(), 2, "{text}");
        assert!(text.contains("setenv"), "{text}");
        assert!(
            text.lines().next_back().is_some_and(|line| line.starts_with("Look for: ")) || language == "python",
            "{text}"
        );
    }
}

#[test]
fn what_needs_the_harness_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let ran = scratch.run(&["export", "fork-child-holds-nothing", "--plain", "--as", "c"]);
    ran.ended(2, "usage");
    assert!(ran.stderr.contains("several threads or processes") && ran.stderr.contains("without --plain"), "{ran:#?}");
}
