//! Commands that need no GPU: `mask` predicts, `sim` starts programs on the simulated machine, and `trace` runs on a
//! machine without a GPU.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::traced::{LATE, Node, in_time};
use crate::common::{PROGRAM, Scratch};

/// A program that initializes CUDA, counts, and calls what the simulated machine does not model.
const COUNTS: &str = "
import ctypes, sys
libcuda = ctypes.CDLL('libcuda.so.1')
count = ctypes.c_int()
print(libcuda.cuInit(0), libcuda.cuDeviceGetCount(ctypes.byref(count)), count.value)
if 'more' in sys.argv:
    libcuda.cuTexRefCreate(ctypes.byref(ctypes.c_void_p()))
    ctypes.CDLL('libcudart.so.13').cudaInitDevice(0, 1, 0)
if 'fail' in sys.argv:
    sys.exit(7)
";

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (String, String, Option<i32>) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    (text(stdout), text(stderr), status.code())
}

fn document(arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let (stdout, stderr, code) = run(&[&["mask", "--json"], arguments].concat(), variables);
    assert_eq!((stderr.as_str(), code), ("", Some(0)), "{stdout}");
    let document = serde_json::from_str(&stdout).expect("one document");
    let schema = cuda_pitfalls::report::schema_of::<cuda_pitfalls::visibility::Visibility>();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&document), "{stdout}");
    document
}

#[test]
fn a_mask_is_that_of_the_command_line_or_of_the_environment() {
    let of = |arguments: &[&str], variables: &[(&str, &str)]| {
        let answer = document(&[&["--gpus", "4"], arguments].concat(), variables);
        (
            answer["status"].as_str().map(str::to_owned),
            answer["visible"].as_array().map(Vec::len),
            answer["mask"].clone(),
        )
    };
    let status = |name: &str| Some(name.to_owned());
    let mask = [("CUDA_VISIBLE_DEVICES", "2,0")];
    assert_eq!(
        of(&[], &mask),
        (status("CUDA_SUCCESS"), Some(2), "2,0".into())
    );
    assert_eq!(
        of(&["--unset"], &mask),
        (status("CUDA_SUCCESS"), Some(4), Value::Null)
    );
    assert_eq!(
        of(&["0,0"], &mask),
        (status("CUDA_ERROR_INVALID_DEVICE"), Some(0), "0,0".into())
    );
    assert_eq!(
        of(&["-1"], &[]),
        (status("CUDA_ERROR_NO_DEVICE"), Some(0), "-1".into())
    );
    assert_eq!(
        of(&["0", "--order", "pci"], &[]).0,
        status("CUDA_ERROR_INVALID_DEVICE")
    );
    // As written before a command; misspelled, it sets nothing, and neither does a misspelled variable.
    assert_eq!(of(&["CUDA_VISIBLE_DEVICES=2,0"], &[]).2, "2,0");
    assert_eq!(
        of(&["CUDA_VISIBLE_DEVICE=2"], &mask),
        (status("CUDA_SUCCESS"), Some(4), Value::Null)
    );
    let set = document(
        &["--gpus", "4", "CUDA_VISIBLE=2"],
        &[("CUDA_DEVICES_ORDER", "x"), ("CUDA_HOME", "/x")],
    );
    let misspelt = serde_json::json!({ "CUDA_DEVICES_ORDER": "CUDA_DEVICE_ORDER", "CUDA_VISIBLE": "CUDA_VISIBLE_DEVICES" });
    assert_eq!(set["misspelt"], misspelt);
}

#[test]
fn gpus_option_accepts_numbers_machines_and_lists() {
    let scratch = Scratch::new();
    let list = scratch.file(
        "gpus.txt",
        "GPU 0: NVIDIA T4 (UUID: GPU-5a0000be-0000-4000-8000-000000000000)\n",
    );
    let answer = document(&["GPU-5a", "--gpus", &list], &[]);
    assert_eq!(
        (
            answer["gpus_of"]["from"].as_str(),
            answer["visible"].as_array().map(Vec::len)
        ),
        (Some("file"), Some(1))
    );
    assert_eq!(
        document(&["--gpus", "sim:mixed-pair"], &[])["order_known"],
        false
    );
    let wrong = |gpus: &str| {
        let (stdout, stderr, code) = run(&["mask", "0", "--gpus", gpus], &[]);
        assert_eq!((stdout.as_str(), code), ("", Some(2)), "{stderr}");
        stderr
    };
    assert!(wrong("9").contains("a number from 1 to 8"));
    assert!(wrong("sim:no-such-machine").contains("unknown simulated machine"));
    assert!(wrong("no/such/file").contains("no/such/file"));
    fs::write(&list, "# nothing\n").expect("a list");
    assert!(wrong(&list).contains("it lists no GPU"));
    fs::write(&list, "\nGPU-5a\n").expect("a list");
    assert!(wrong(&list).contains(&format!("{list}:2: there is no UUID of the form")));
}

#[test]
fn sim_runs_program_with_requested_gpu_count() {
    let (stdout, stderr, code) = run(&["sim", "--gpus", "5", "--", "python3", "-c", COUNTS], &[]);
    assert_eq!((stdout.as_str(), code), ("0 0 5\n", Some(0)), "{stderr}");
    assert_eq!(
        stderr.matches("SIMULATED machine h200-x5").count(),
        2,
        "{stderr}"
    );
    let hidden = [("CUDA_VISIBLE_DEVICES", "1,0")];
    assert_eq!(
        run(
            &[
                "sim",
                "--machine",
                "mixed-pair",
                "--",
                "python3",
                "-c",
                COUNTS
            ],
            &hidden
        )
        .0,
        "0 0 2\n"
    );
    let absent = Scratch::new()
        .path()
        .join("absent.toml")
        .to_string_lossy()
        .into_owned();
    let (_, stderr, code) = run(&["sim", "--machine", &absent, "--", "true"], &[]);
    assert!(
        code == Some(2) && stderr.contains(&format!("cannot read {absent}")),
        "{code:?} {stderr}"
    );
}

#[test]
fn what_is_not_modelled_is_named_and_is_no_success() {
    let (_, stderr, code) = run(&["sim", "python3", "-c", COUNTS, "more"], &[]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(
        stderr.contains("cuTexRefCreate (<string>:7)") && stderr.contains("cudaInitDevice"),
        "{stderr}"
    );
    let nvml = "import ctypes; nvml = ctypes.CDLL('libnvidia-ml.so.1'); hasattr(nvml, 'nvmlInit') and hasattr(nvml, 'nvmlNone')";
    let (_, stderr, code) = run(&["sim", "python3", "-c", nvml], &[]);
    assert!(
        code == Some(3) && stderr.contains("Not in this NVML: nvmlNone (<string>:1)"),
        "{code:?} {stderr}"
    );
    // A program that failed keeps its own code.
    assert_eq!(
        run(&["sim", "python3", "-c", COUNTS, "more", "fail"], &[]).2,
        Some(7)
    );
    assert_eq!(run(&["sim", "no-such-program"], &[]).2, Some(127));
    assert_eq!(
        run(&["sim", "--machine", "nothing", "true"], &[]).2,
        Some(2)
    );
    assert_eq!(run(&["sim", "--gpus", "9", "true"], &[]).2, Some(2));
    let (_, stderr, code) = run(&["run", "--on", "sim:no-device"], &[]);
    assert!(
        code == Some(2) && stderr.contains("available only in `trace` and `sim`"),
        "{stderr}"
    );
}

#[test]
fn where_no_gpu_is_a_trace_names_who_calls_cu_init() {
    let scratch = Scratch::new();
    let out = scratch.path().to_string_lossy().into_owned();
    let trace = [
        "trace",
        "--on",
        "sim:no-device",
        "--forbid",
        "cuinit",
        "--out",
        &out,
        "--",
        "python3",
        "-c",
        COUNTS,
    ];
    let (stdout, stderr, code) = in_time(
        |(_, stderr, _): &(_, String, _)| stderr.contains(LATE),
        || run(&trace, &[]),
    );
    // After a failed cuInit, every other call fails.
    assert_eq!((stdout.as_str(), code), ("100 3 0\n", Some(1)), "{stderr}");
    assert!(
        stderr.contains("<string>:5 initializes CUDA through cuInit"),
        "{stderr}"
    );
    let clean = [
        "trace",
        "--on",
        "sim:no-device",
        "--forbid",
        "cuinit",
        "--out",
        &out,
        "--",
        "python3",
        "-c",
        "print()",
    ];
    assert_eq!(run(&clean, &[]).2, Some(0));
}

/// The actions of a program that gives up on the simulated driver (`tests/injection/gives_up.c`), the policy, the exit
/// code of the trace, and its output.
const GIVEN_UP: [(&str, &str, i32, &str); 26] = [
    (
        "d",
        "cuinit",
        3,
        "looked for /dev/nvidia99 (gives_up.c:32), which the simulated machine does not have",
    ),
    ("s", "cuinit", 3, "looked for /dev/nvidia99 (gives_up.c:33)"),
    (
        "a",
        "late-mask",
        3,
        "looked for /dev/nvidia99 (gives_up.c:34)",
    ),
    (
        "f",
        "context",
        3,
        "looked for /proc/driver/nvidia/none (gives_up.c:35)",
    ),
    ("y", "cuinit", 3, "looked for cuNoSuchCall (gives_up.c:36)"),
    ("p", "cuinit", 3, "looked for cuNoSuchCall (gives_up.c:37)"),
    (
        "e",
        "fork",
        3,
        "looked for cuGetExportTable (gives_up.c:38)",
    ),
    (
        "dsaey",
        "cuinit",
        3,
        "(gives_up.c:34), cuGetExportTable (gives_up.c:38), cuNo",
    ),
    // A program that continues with other functions fills a table of them.
    ("yk", "cuinit", 0, "CUDA was not initialized"),
    ("pv", "cuinit", 0, "CUDA was not initialized"),
    ("okx", "cuinit", 0, "CUDA was not initialized"),
    ("", "cuinit", 0, "CUDA was not initialized"),
    // A program that continues is found, or found to do nothing forbidden; if the mask was set in
    // between, that may have been too late.
    ("ypedi", "cuinit", 1, "initializes CUDA through cuInit"),
    ("ypedi", "late-mask", 0, "are not seen"),
    ("ymi", "late-mask", 3, "looked for cuNoSuchCall"),
    ("mi", "late-mask", 0, "CUDA_VISIBLE_DEVICES set to 1"),
    ("im", "late-mask", 1, "too late"),
    // Calls after a cuInit are not seen if it fails only because of the simulated driver.
    ("i", "context", 3, "the calls that would follow"),
    ("i", "fork", 3, "the calls that would follow"),
    ("i", "error", 3, "the calls that would follow"),
    (
        "i",
        "late-launch-blocking",
        3,
        "the calls that would follow",
    ),
    // OpenCL has its own driver, and hides nothing of libcuda.
    ("c", "cuinit", 1, "initializes CUDA through OpenCL"),
    ("mc", "late-mask", 0, "through OpenCL, whose own contexts"),
    ("cm", "late-mask", 1, "too late"),
    ("ci", "late-mask", 0, "through OpenCL, whose own contexts"),
    ("ci", "context", 3, "through OpenCL, whose own contexts"),
];

#[test]
fn what_gave_up_on_the_simulated_driver_is_not_taken_for_clean() {
    let node = Node::new("h200-x2");
    const SOURCE: &str = "tests/injection/gives_up.c";
    let program = node
        .compile(SOURCE, "gives_up", &[])
        .to_string_lossy()
        .into_owned();
    node.compile(
        SOURCE,
        "libnvidia-opencl.so.1",
        &["-shared", "-fPIC", "-DOPENCL"],
    );
    let (folder, out) = (
        node.scratch.path().to_string_lossy().into_owned(),
        node.file("out").display().to_string(),
    );
    for (does, forbidden, wanted, says) in GIVEN_UP {
        let on = if does.contains('c') {
            "sim:h200-x2"
        } else {
            "sim:no-device"
        };
        let trace = [
            "trace", "--on", on, "--forbid", forbidden, "--out", &out, "--", &program, does,
        ];
        let (_, stderr, code) = run(&trace, &[("LD_LIBRARY_PATH", &folder)]);
        let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            code == Some(wanted) && said.contains(says),
            "{does} {forbidden}: {code:?}\n{stderr}"
        );
        assert!(
            !said.contains("did not call the injection hook"),
            "{does}: {stderr}"
        );
    }
}

/// Calls that fail on the simulated driver, and functions that it lacks, after a successful `cuInit`: each call with
/// the function that a trace reports.
const NOT_MODELLED: [(&str, &str); 3] = [
    (
        "c.cuModuleLoadData(ctypes.byref(p), b'no PTX')",
        "cuModuleLoadData",
    ),
    (
        "c.cuDeviceGetAttribute(ctypes.byref(p), 126, 0)",
        "cuDeviceGetAttribute",
    ),
    ("hasattr(c, 'cuTexObjectCreate')", "cuTexObjectCreate"),
];

#[test]
fn a_trace_on_the_simulated_machine_names_what_is_not_modelled() {
    let scratch = Scratch::new();
    let out = scratch.at("out");
    let begin = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_void_p(); c.cuInit(0); \
                 c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0); c.cuCtxSetCurrent(p)";
    for (call, name) in NOT_MODELLED {
        for (forbidden, wanted) in [("late-mask", 3), ("context", 1)] {
            let script = format!("{begin}; {call}");
            let trace = [
                "trace", "--on", "sim", "--forbid", forbidden, "--out", &out, "--", "python3",
                "-c", &script,
            ];
            let ran = scratch.run(&trace);
            assert!(
                ran.code == Some(wanted) && ran.stderr.contains(name),
                "{name} {forbidden}: {ran:#?}"
            );
            assert!(
                !ran.stderr.contains("no pitfall found\n"),
                "{name}: {ran:#?}"
            );
        }
    }
    let modelled = format!("{begin}; c.cuDeviceGetCount(ctypes.byref(p))");
    scratch
        .run(&[
            "trace",
            "--on",
            "sim",
            "--forbid",
            "late-mask",
            "--out",
            &out,
            "--",
            "python3",
            "-c",
            &modelled,
        ])
        .good();
}

/// The actions of a program (`tests/injection/optional.c`), and the optional library that the trace reports as not
/// found. `here/` has a libcufile.so.0, which only the program itself finds by its name, and a library that needs it.
const OPTIONAL: [(&[&str], Option<&str>); 18] = [
    (&["libcufile.so.0"], Some("libcufile.so.0 (optional.c:18)")),
    (
        &["here/none/libuct_cuda.so.0", "_exit"],
        Some("libuct_cuda.so.0 (optional.c:18)"),
    ),
    (
        &["libnvshmem_host.so.3", "cuInit"],
        Some("libnvshmem_host.so.3"),
    ),
    (
        &["cuInit", "libnvshmem_host.so.3"],
        Some("libnvshmem_host.so.3"),
    ),
    (
        &["libonnxruntime_providers_cuda.so"],
        Some("libonnxruntime_providers_cuda.so"),
    ),
    (&["libnccl-net.so"], Some("libnccl-net.so")),
    (
        &["libnccl-tuner-other.so", "cuInit"],
        Some("libnccl-tuner-other.so"),
    ),
    // A dependency of another library does not count as a search.
    (
        &["libcufile.so.1", "here/libneeds.so"],
        Some("libcufile.so.1"),
    ),
    (
        &["libcufile.so.1", "here/libneeds.so", "dlsym"],
        Some("libcufile.so.1"),
    ),
    // NCCL has initialized CUDA when it looks for its plugins.
    (&["cuInit", "libnccl-net.so"], None),
    // The library exists, by this name or by another.
    (&["libcufile.so.0", "found"], None),
    (&["libcufile.so.0", "dlsym", "_exit", "found"], None),
    (
        &["libcufile.so", "libcufile.so.1", "libcufile.so.0", "found"],
        None,
    ),
    (
        &["libcufile.so.1", "here/libcufile.so.0", "dlsym", "_exit"],
        None,
    ),
    (&["here/libneeds.so", "libcufile.so.0"], None),
    // No such library is known to call the driver.
    (&["libnone.so.1"], None),
    (
        &[
            "libcufile/libnone.so",
            "notlibcufile.so.0",
            "libcufile_rdma.so.1",
        ],
        None,
    ),
    (&["dlsym"], None),
];

#[test]
fn missing_optional_library_leaves_policy_undecided() {
    let node = Node::new("h200-x2");
    const SOURCE: &str = "tests/injection/optional.c";
    fs::create_dir(node.file("here")).expect("a folder of our own");
    let here = node.file("here").to_string_lossy().into_owned();
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcufile.so.0"];
    let cufile = node.compile(
        "tests/injection/hook.c",
        "here/libcufile.so.0",
        &[&shared[..], &["-DWITHOUT_HOOK", "-Wno-unused"]].concat(),
    );
    let rpath = format!("-Wl,--enable-new-dtags,-rpath,{here}");
    let needs = [
        "-shared",
        "-fPIC",
        &rpath,
        "-Wl,--no-as-needed",
        &cufile.to_string_lossy(),
    ];
    node.compile(SOURCE, "here/libneeds.so", &needs);
    let [finds, plain] =
        [("finds", &[rpath.as_str()][..]), ("plain", &[])].map(|(name, options)| {
            node.compile(SOURCE, name, options)
                .to_string_lossy()
                .into_owned()
        });
    let out = node.file("out").display().to_string();
    for (words, missing) in OPTIONAL {
        let program = if words.contains(&"found") {
            &finds
        } else {
            &plain
        };
        let words: Vec<String> = words
            .iter()
            .filter(|word| **word != "found")
            .map(|word| {
                word.strip_prefix("here/")
                    .map_or_else(|| (*word).to_owned(), |name| format!("{here}/{name}"))
            })
            .collect();
        let mut trace = vec![
            "trace",
            "--on",
            "sim:h200-x2",
            "--forbid",
            "fork",
            "--out",
            &out,
            "--",
            program,
        ];
        trace.extend(words.iter().map(String::as_str));
        let (_, stderr, code) = run(&trace, &[]);
        let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            code,
            Some(if missing.is_some() { 3 } else { 0 }),
            "{words:?}\n{stderr}"
        );
        match missing {
            Some(name) => assert!(
                said.contains(&format!(" looked for {name}")),
                "{words:?}\n{stderr}"
            ),
            None => assert!(!said.contains("but did not find it"), "{words:?}\n{stderr}"),
        }
    }
}

/// A traced program may start a trace, and so may one on the simulated machine. The inner trace ends and observes.
#[test]
fn a_trace_within_a_trace_sees_its_program() {
    let scratch = Scratch::new();
    let folder = |name: &str| scratch.at(name);
    let (inner, outer) = (folder("inner"), folder("outer"));
    // It runs until the outer trace has inspected it.
    let code = format!("import atexit, time\natexit.register(time.sleep, 1){COUNTS}");
    let trace = [
        PROGRAM, "trace", "--out", &inner, "--", "python3", "-c", &code,
    ];
    for around in [
        &["trace", "--on", "sim", "--out", &outer, "--"][..],
        &["sim", "--"],
    ] {
        let ran = scratch.run(&[around, &trace[..]].concat()).good();
        assert!(
            ran.stdout.starts_with("0 0 2"),
            "{around:?}: {}",
            ran.stdout
        );
        let ran = ran
            .says("CUDA_VISIBLE_DEVICES was read as (unset)")
            .says("<module> → cuInit");
        assert!(
            !ran.stderr.contains("too many"),
            "{around:?}: {}",
            ran.stderr
        );
        // The outer one does not report that nothing was observed.
        let is_said = ran
            .stderr
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("belongs to another trace");
        assert_eq!(
            is_said,
            around.contains(&"trace"),
            "{around:?}: {}",
            ran.stderr
        );
        assert!(
            !ran.stderr.contains("CUDA was not initialized"),
            "{around:?}: {}",
            ran.stderr
        );
    }
}
