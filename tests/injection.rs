//! The simulated driver and `CUDA_INJECTION64_PATH`: when the hook of the given library is called, and by which
//! function. The behavior of the real driver is documented in `src/fake/sim/model/behaviour.rs`.

use crate::common;

use std::fs;

use common::traced::Node;

/// A machine with two GPUs, a hook, and a program that makes calls.
struct Bench(Node);

/// Output of a program, and the lines of the hook.
#[derive(Debug, PartialEq)]
struct Seen {
    printed: Vec<String>,
    hook: Vec<String>,
}

impl Bench {
    fn new() -> Bench {
        let node = Node::new("h200-x2");
        node.compile("tests/injection/calls.c", "calls", &[]);
        node.compile(
            "tests/injection/hook.c",
            "libhook.so",
            &["-shared", "-fPIC"],
        );
        Bench(node)
    }

    fn hook(&self) -> String {
        self.0.file("libhook.so").to_string_lossy().into_owned()
    }

    /// Runs the program with these variables in addition to those of every run.
    fn run(&self, variables: &[(&str, &str)], calls: &[&str]) -> Seen {
        let log = self.0.file("log");
        let _ = fs::remove_file(&log);
        let mut command = self.0.command(self.0.file("calls"));
        command
            .env("HOOK_LOG", &log)
            .envs(variables.iter().copied())
            .args(calls);
        let ran = self.0.run(command);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        let lines = |text: String| text.lines().map(String::from).collect();
        Seen {
            printed: lines(ran.stdout),
            hook: lines(fs::read_to_string(&log).unwrap_or_default()),
        }
    }

    /// Runs the program likewise, with the hook in the environment.
    fn hooked(&self, variables: &[(&str, &str)], calls: &[&str]) -> Seen {
        let hook = self.hook();
        let mut all = vec![("CUDA_INJECTION64_PATH", hook.as_str())];
        all.extend_from_slice(variables);
        self.run(&all, calls)
    }
}

fn seen(printed: &[&str], hook: &[&str]) -> Seen {
    let owned = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
    Seen {
        printed: owned(printed),
        hook: owned(hook),
    }
}

const UNSET: &str = "first thread, mask (unset)";

#[test]
fn the_hook_is_called_before_the_mask_is_read_and_once() {
    let bench = Bench::new();
    let first = "first thread, mask 0";
    let masked = [("CUDA_VISIBLE_DEVICES", "0"), ("HOOK_MASK", "0,1")];
    assert_eq!(
        bench.run(&masked, &["init", "count"]),
        seen(&["init 0", "count 0 1"], &[])
    );
    assert_eq!(
        bench.hooked(&masked, &["init", "init", "count"]),
        seen(&["init 0", "init 0", "count 0 2"], &[first])
    );
    // The program may name the library itself, and its first call may be one of the runtime's.
    let named = format!("CUDA_INJECTION64_PATH={}", bench.hook());
    let calls = [
        named.as_str(),
        "runtime-version",
        "runtime-count",
        "runtime-count",
    ];
    let printed = [
        "runtime-version 0",
        "runtime-count 0 2",
        "runtime-count 0 2",
    ];
    assert_eq!(bench.run(&masked, &calls), seen(&printed, &[first]));
    assert_eq!(
        bench.hooked(&[], &["last-error"]),
        seen(&["last-error 0"], &[UNSET])
    );
    assert_eq!(
        bench.hooked(&[], &["runtime-version", "count"]),
        seen(&["runtime-version 0", "count 3 -1"], &[])
    );
}

#[test]
fn what_cannot_be_loaded_and_what_the_hook_returns_change_nothing() {
    let bench = Bench::new();
    let (hook, calls) = (bench.hook(), ["init", "count"]);
    let printed = ["init 0", "count 0 2"];
    bench.0.compile(
        "tests/injection/hook.c",
        "libnone.so",
        &["-shared", "-fPIC", "-DWITHOUT_HOOK", "-Wno-unused"],
    );
    let none = bench.0.file("libnone.so").to_string_lossy().into_owned();
    for path in [
        "",
        &format!("{none}.absent"),
        "libno-such.so",
        &none,
        &format!("{hook}:{hook}"),
        "/etc/passwd",
    ] {
        let run = bench.run(
            &[("CUDA_INJECTION64_PATH", path), ("HOOK_MASK", "1")],
            &calls,
        );
        assert_eq!(run, seen(&printed, &[]), "{path}");
    }
    assert_eq!(
        bench.hooked(&[("HOOK_RETURNS", "0")], &calls),
        seen(&printed, &[UNSET])
    );
}

#[test]
fn a_bare_name_is_searched_by_the_loader() {
    let bench = Bench::new();
    let calls = ["init"];
    let bare = [("CUDA_INJECTION64_PATH", "libhook.so")];
    assert_eq!(bench.run(&bare, &calls), seen(&["init 0"], &[]));
    let search = format!(
        "{}:{}",
        bench.0.links.display(),
        bench.0.scratch.path().display()
    );
    assert_eq!(
        bench.run(&[bare[0], ("LD_LIBRARY_PATH", &search)], &calls),
        seen(&["init 0"], &[UNSET])
    );
}

#[test]
fn hook_runs_without_devices_and_init_rereads_mask() {
    let bench = Bench::new();
    let run = bench.hooked(
        &[("CUDA_VISIBLE_DEVICES", "")],
        &["init", "CUDA_VISIBLE_DEVICES=1", "init", "count"],
    );
    assert_eq!(
        run,
        seen(
            &["init 100", "init 0", "count 0 1"],
            &["first thread, mask "]
        )
    );
}

#[test]
fn forked_child_calls_hook_unless_parent_did() {
    let bench = Bench::new();
    let before = bench.hooked(&[], &["fork-and-both-go-on", "init"]);
    assert_eq!(before, seen(&["init 0", "init 0"], &[UNSET, UNSET]));
    assert_eq!(
        bench.hooked(&[], &["init", "fork", "init"]),
        seen(&["init 0", "init 3"], &[UNSET])
    );
    let failed = [
        "CUDA_VISIBLE_DEVICES=",
        "init",
        "fork",
        "CUDA_VISIBLE_DEVICES",
        "init",
    ];
    assert_eq!(
        bench.hooked(&[], &failed),
        seen(&["init 100", "init 0"], &["first thread, mask "])
    );
}

#[test]
fn another_thread_waits_for_the_hook() {
    let bench = Bench::new();
    let slow = [("HOOK_SLEEPS_MS", "200"), ("HOOK_MASK", "1")];
    let run = bench.hooked(&slow, &["threads", "count"]);
    // If the second one had continued meanwhile, it would have read the mask before the hook had set it.
    assert_eq!(
        run,
        seen(
            &["thread 0", "thread 0", "count 0 1"],
            &["other thread, mask (unset)"]
        )
    );
}

#[test]
fn the_hook_may_call_the_driver() {
    let bench = Bench::new();
    for (calls, made) in [
        ("1", "count 3, version 0"),
        ("2", "count 3, version 0, init 0"),
    ] {
        let run = bench.hooked(&[("HOOK_CALLS", calls)], &["init", "count"]);
        assert_eq!(
            run,
            seen(&["init 0", "count 0 2"], &[&format!("{UNSET}, {made}")])
        );
    }
}

#[test]
fn a_preloaded_getenv_is_asked_for_the_mask() {
    let bench = Bench::new();
    let preload = bench.0.compile(
        "tests/injection/preload.c",
        "libpreload.so",
        &["-shared", "-fPIC"],
    );
    let preload = preload.to_string_lossy().into_owned();
    let calls = ["init", "count"];
    assert_eq!(bench.run(&[], &calls).printed, ["init 0", "count 0 2"]);
    assert_eq!(
        bench.run(&[("LD_PRELOAD", &preload)], &calls).printed,
        ["init 0", "count 0 1"]
    );
}
