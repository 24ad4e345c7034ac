//! The report of a trace on a CUDA call that failed: the meaning of its status from `explain`, and the cause if the
//! trace knows it.

use crate::common;

use common::Scratch;

/// The code of a program after `import ctypes, os, sys, threading` and `c = ctypes.CDLL('libcuda.so.1')`, whether it
/// fails, and the output of the trace.
const REFUSED: [(&str, bool, &str); 10] = [
    (
        "c.cuInit(0); sys.exit(c.cuDeviceGet(ctypes.byref(p), 3) and 1)",
        true,
        "The call asked for device 3. Inside the process GPU 3 of CUDA_VISIBLE_DEVICES is device 1. The program requested",
    ),
    // A number that is in no mask, and more than any process can see.
    (
        "c.cuInit(0); sys.exit(c.cuDeviceGet(ctypes.byref(p), 5) and 1)",
        true,
        "The call asked for device 5. The program requested",
    ),
    (
        "c.cuInit(0); sys.exit(c.cuDeviceGet(ctypes.byref(p), 99) and 1)",
        true,
        "cuDeviceGet returned",
    ),
    (
        "os.environ['CUDA_VISIBLE_DEVICES'] = '0'; c.cuInit(0); sys.exit(c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 3) and 1)",
        true,
        "the process sees 1 GPU, as device 0. The call asked for device 3. The process set the mask at <string>:1: a GPU count",
    ),
    (
        "c.cuInit(0); c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0); c.cuCtxSetCurrent(p); \
         t = threading.Thread(target=lambda: c.cuMemAlloc_v2(ctypes.byref(p), 9)); t.start(); t.join()",
        false,
        "created one at <string>:1. Thread",
    ),
    (
        "c.cuInit(0); c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0); c.cuCtxSetCurrent(p); c.cuCtxSetCurrent(None); \
         c.cuMemAlloc_v2(ctypes.byref(p), 9)",
        false,
        "A context was current in this thread before but no longer is",
    ),
    (
        "c.cuInit(0); pid = os.fork(); pid or os._exit(c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0) and 1); os.wait()",
        false,
        "after the parent had called cuInit at <string>:1, so it cannot use CUDA.",
    ),
    // Nothing is known of the cause.
    (
        "c.cuInit(0); c.cuCtxSetCurrent(ctypes.c_void_p(7)); sys.exit(1)",
        true,
        "cuCtxSetCurrent returned",
    ),
    (
        "c.cuInit(0); c.cuCtxSetCurrent(ctypes.c_void_p(7))",
        false,
        "",
    ),
    // A program that queries before it initializes.
    (
        "c.cuDeviceGetCount(ctypes.byref(p)); c.cuInit(0)",
        false,
        "",
    ),
];

#[test]
fn a_refused_call_is_explained_by_what_the_trace_knows() {
    let scratch = Scratch::new();
    let out = scratch.at("out");
    for (does, fails, says) in REFUSED {
        let script = format!(
            "import ctypes, os, sys, threading; c = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_void_p(); {does}"
        );
        let trace = [
            "trace",
            "--on",
            "sim:h200-x4",
            "--out",
            &out,
            "--",
            "python3",
            "-c",
            &script,
        ];
        let mut command = scratch.command(&trace);
        command.env("CUDA_VISIBLE_DEVICES", "2,3");
        let ran = scratch.ran(command);
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ran.code, Some(fails.into()), "{does}: {ran:#?}");
        assert_eq!(
            said.contains("Failed calls"),
            !says.is_empty(),
            "{does}: {}",
            ran.stderr
        );
        assert!(said.contains(says), "{does}: {}", ran.stderr);
        assert_eq!(
            said.contains("1 call failed"),
            fails,
            "{does}: {}",
            ran.stderr
        );
    }
}

#[test]
fn trace_doctor_and_explain_say_the_same_of_a_status() {
    let scratch = Scratch::new();
    let (out, sarif) = (scratch.at("out"), scratch.at("trace.sarif"));
    let script = "import ctypes, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) and 1)";
    let sarif_option = format!("--sarif={sarif}");
    let trace = [
        "trace",
        "--on",
        "sim",
        "--out",
        &out,
        &sarif_option,
        "--",
        "python3",
        "-c",
        script,
    ];
    let means = "The program requested a GPU that this process does not see: the number is too high for the GPUs left by the mask";
    for arguments in [&trace[..], &["doctor", "--on", "sim"], &["explain", "101"]] {
        let mut command = scratch.command(arguments);
        command.env("CUDA_VISIBLE_DEVICES", "0,0");
        let ran = scratch.ran(command);
        let said = [ran.stdout, ran.stderr]
            .join(" ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(said.contains(means), "{arguments:?}: {said}");
    }
    let sarif = std::fs::read_to_string(sarif).expect("SARIF");
    assert!(sarif.contains(means), "{sarif}");
}
