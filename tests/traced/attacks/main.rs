//! Effects of other users, the traced program and the system on a trace: the program ends as it would without the
//! tracer, the tracer comes to its end, and nothing that was not measured satisfies a policy.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cuda_pitfalls::trace::{EventKind, Trace};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::common::closed::SYSTEM;
use super::common::traced::Node;
use super::common::{LONGEST, PROGRAM, Ran, Running, Scratch, behind, eventually, has_all_rights};
use super::{appears, run, script, stored, text, trace, tracing};

/// A user who owns nothing here.
const OTHER: u32 = 65_533;
const MODES: [&str; 4] = ["zero", "silent", "drip", "spoof"];

/// Returns `true` if this is root. Otherwise prints what is not tested, because only root can do it.
pub(super) fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("NOT TESTED: only root can {what}");
    }
    is_root
}

/// A program that prints the folder of its trace, and exits with 5 when the test requests it.
struct Held {
    scratch: Scratch,
    running: Running,
}

impl Held {
    fn start(options: &[&str], first: &str) -> Held {
        let scratch = Scratch::new();
        let script = format!(
            "{first}\necho $CUDA_PITFALLS_TRACED > {0}/new && mv {0}/new {0}/folder\nwhile [ ! -e {0}/go ]; do sleep 0.02; done\n\
             exit 5",
            scratch.path().display()
        );
        let running = scratch.start(tracing(&scratch, options, &["sh", "-c", &script]));
        Held { scratch, running }
    }

    /// Returns the directory of the trace.
    fn folder(&self) -> PathBuf {
        let path = self.scratch.path().join("folder");
        appears(&path);
        PathBuf::from(fs::read_to_string(path).expect("a folder").trim())
    }

    /// Lets the program end.
    fn finish(self) -> (Ran, Trace) {
        File::create(self.scratch.path().join("go")).expect("a file");
        (self.running.wait(LONGEST), stored(&self.scratch))
    }
}

/// A process that attacks a socket, and does so until this is dropped.
struct Stranger(Child);

impl Stranger {
    fn start(mode: &str, socket: &Path) -> Stranger {
        // Another user may not be able to enter the folder of the tests, nor that of our interpreter.
        let text = fs::read_to_string(script("attacks/stranger.py")).expect("a program");
        let mut command = Command::new("python3");
        command
            .env("PATH", SYSTEM)
            .args(["-c", &text, mode])
            .arg(socket)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let child = command.uid(OTHER).gid(OTHER).spawn().expect("it starts");
        let mut stranger = Stranger(child);
        let mut said = String::new();
        let output = stranger.0.stdout.take().expect("a pipe");
        BufReader::new(output)
            .read_line(&mut said)
            .expect("it says something");
        assert_eq!(said, "ready\n", "{mode}");
        stranger
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a trace with a foreign process on its socket.
fn beside_a_stranger(mode: &str) {
    let held = Held::start(&[], "");
    let stranger = Stranger::start(mode, &held.folder().join("socket"));
    let (ran, trace) = held.finish();
    drop(stranger);
    assert_eq!(ran.code, Some(5), "{mode}: {ran:?}");
    assert!(
        trace.events.is_empty() && trace.processes.is_empty(),
        "{mode}: {:?}",
        trace.events
    );
}

#[test]
fn another_user_on_the_socket_is_not_heard_and_holds_nobody() {
    if is_root("start a process of another user") {
        MODES.into_iter().for_each(beside_a_stranger);
    }
}

#[test]
fn a_program_that_lies_spoils_only_its_own_trace() {
    // At the same time, because each trace waits for the process that lies.
    std::thread::scope(|scope| {
        for mode in MODES {
            scope.spawn(move || lie_to_own_trace(mode));
        }
    });
}

/// Runs a trace whose own program sends `mode` to its socket, and outlives the first process.
fn lie_to_own_trace(mode: &str) {
    let stranger = script("attacks/stranger.py");
    let first = format!(
        "{{ sleep 60 | python3 {stranger} {mode} $CUDA_PITFALLS_TRACED/socket & }} | head -1"
    );
    let held = Held::start(&[], &first);
    held.folder();
    let (ran, trace) = held.finish();
    assert_eq!(ran.code, Some(5), "{mode}: {ran:?}");
    assert!(trace.end.is_some(), "{mode}");
}

/// Returns the reason why a path that a process uses may become another user's: it does not exist, and another user
/// could create it.
fn may_become_anothers(path: &Path) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let mut is_there = true;
    for folder in path.ancestors() {
        let Ok(data) = fs::symlink_metadata(folder) else {
            is_there = false;
            continue;
        };
        let is_open = data.mode() & 0o022 != 0 && (data.mode() & 0o1000 == 0 || !is_there);
        if is_open || ![0, own].contains(&data.uid()) {
            return Some(format!(
                "{}: mode {:o}, user {}",
                folder.display(),
                data.mode(),
                data.uid()
            ));
        }
        is_there = true;
    }
    None
}

#[test]
fn paths_of_ended_trace_cannot_be_taken_over() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join(name);
    // The process outlives the trace, and then starts a program.
    let script = format!(
        "(while [ ! -e {0}/go ]; do sleep 0.02; done; env > {0}/variables; /bin/echo alive > {0}/out 2> {0}/complaints
          mv {0}/out {0}/done) > /dev/null 2>&1 & exit 5",
        scratch.path().display()
    );
    let ran = run(&scratch, &["--wait-children", "0s"], &["sh", "-c", &script]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    File::create(at("go")).expect("a file");
    appears(&at("done"));
    assert_eq!(
        fs::read_to_string(at("complaints")).expect("a file"),
        "",
        "the loader misses something"
    );
    let variables = fs::read_to_string(at("variables")).expect("a file");
    let mut names = Vec::new();
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "CUDA_INJECTION64_PATH",
        "CUDA_PITFALLS_TRACED",
    ] {
        let value = variables
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        names.extend(
            value
                .unwrap_or_else(|| panic!("no {name}"))
                .split(':')
                .map(PathBuf::from),
        );
    }
    assert!(
        names.iter().any(|name| !name.exists()),
        "the folder of the trace is removed"
    );
    for name in names {
        let socket = name.join("socket");
        let wrong = [&name, &socket]
            .into_iter()
            .find_map(|name| may_become_anothers(name));
        assert_eq!(wrong, None, "{} may become another user's", name.display());
    }
}

#[test]
fn a_trace_is_its_users_alone() {
    let scratch = Scratch::new();
    run(&scratch, &[], &["sh", "-c", "true", "secret"]);
    let folder = fs::read_dir(scratch.path().join("traces"))
        .expect("a folder")
        .flatten()
        .next()
        .expect("a trace");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!(mode(&folder.path()), 0o700);
    for name in ["trace.ndjson", "trace.html"] {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
    }
}

/// Returns the inherited state that a shell reports, traced or not, in surroundings that another shell makes.
fn given(scratch: &Scratch, surroundings: &str, is_traced: bool) -> String {
    let out = scratch
        .path()
        .join(if is_traced { "traced" } else { "alone" });
    // The query for the descriptors opens none.
    let ask = format!(
        "for fd in 0 1 2 4; do [ -e /proc/$$/fd/$fd ] && open=\"$open $fd\"; done
         {{ echo $open; ulimit -f; ulimit -n; grep -E 'Sig(Ign|Blk)' /proc/self/status; }} > {}",
        out.display()
    );
    let traces = scratch.path().join("traces");
    let tracer = format!(
        "{PROGRAM} trace --on sim:h200-x2 --out {} --",
        traces.display()
    );
    let line = format!(
        "{surroundings}; exec {} bash -c \"$1\"",
        if is_traced { &tracer } else { "" }
    );
    let mut command = Command::new("bash");
    command
        .args(["-c", &line, "bash", &ask])
        .env("TMPDIR", scratch.path())
        .stdin(Stdio::null());
    let ran = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("it runs");
    assert!(ran.success(), "{surroundings}: {ran}");
    let said = fs::read_to_string(out).expect("what it says");
    // Signals 32 and 33 are the C library's own, and no program's.
    let signals = |line: &str| {
        let (name, mask) = line.split_once(":\t")?;
        Some(format!(
            "{name} {:x}",
            u64::from_str_radix(mask, 16).ok()? & !(3 << 31)
        ))
    };
    said.lines()
        .map(|line| signals(line).unwrap_or_else(|| line.to_owned()) + "\n")
        .collect()
}

#[test]
fn a_program_finds_what_its_caller_meant_for_it() {
    let scratch = Scratch::new();
    for surroundings in [
        "true",
        "trap '' PIPE",
        "trap '' CHLD",
        "trap '' HUP INT USR1 XFSZ",
        "exec 0<&-",
        "exec 1>&-",
        "exec 0<&- 1>&-",
        "exec 4< /dev/null",
        "ulimit -Sf 5000",
        "ulimit -Sn 300",
    ] {
        let (traced, alone) = (
            given(&scratch, surroundings, true),
            given(&scratch, surroundings, false),
        );
        assert_eq!(traced, alone, "{surroundings}");
    }
}

#[test]
fn program_ends_normally_with_sigchld_ignored() {
    let scratch = Scratch::new();
    let mut command = tracing(&scratch, &[], &["sh", "-c", "exit 7"]);
    ignoring(&mut command, libc::SIGCHLD);
    let ran = scratch.start(command).wait(LONGEST);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let scratch = Scratch::new();
    let started = scratch.path().join("started");
    let script = format!(
        "trap 'exit 6' TERM; : > {}; while :; do sleep 0.02; done",
        started.display()
    );
    let mut command = tracing(&scratch, &[], &["sh", "-c", &script]);
    ignoring(&mut command, libc::SIGCHLD);
    let running = scratch.start(command);
    appears(&started);
    running.signal(Signal::TERM);
    assert_eq!(running.wait(LONGEST).code, Some(6));
}

fn ignoring(command: &mut Command, signal: i32) {
    // SAFETY: between fork and exec only the action of a signal is set.
    unsafe {
        command.pre_exec(move || {
            libc::signal(signal, libc::SIG_IGN);
            Ok(())
        });
    }
}

#[test]
fn file_size_limit_does_not_kill_the_tracer() {
    let scratch = Scratch::new();
    let (out, traces) = (scratch.path().join("out"), scratch.path().join("traces"));
    for limit in [4, 64, 400, 4000] {
        let line = format!(
            "ulimit -Sf {limit}; exec {PROGRAM} trace --on sim:h200-x2 --out {} -- bash -c 'ulimit -f > {}; exit 5'",
            traces.display(),
            out.display()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &line]).env("TMPDIR", scratch.path());
        let ran = scratch.start(command).wait(LONGEST);
        assert_eq!(ran.code, Some(5), "{limit}: {ran:?}");
        assert_eq!(
            fs::read_to_string(&out).expect("what it says").trim(),
            limit.to_string()
        );
    }
}

#[test]
fn a_filter_of_system_calls_kills_no_program_and_is_said() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    for options in [
        &["--forbid", "late-mask"][..],
        &["--forbid", "late-mask", "--memory"],
    ] {
        let (ran, trace) = trace(options, &["python3", &script("attacks/filtered.py")]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(3), "child 0\n"),
            "{ran:?}"
        );
        let not_seen = trace.end.expect("a whole trace").not_seen;
        assert!(
            not_seen.iter().any(|why| why.contains("seccomp")),
            "{not_seen:?}"
        );
    }
}

/// Actions of `attacks/escapes.py`, the exit code of a policy against `cuInit`, and a part of the output.
const ESCAPES: [(&str, i32, &str); 19] = [
    ("background", 1, "initializes CUDA"),
    ("daemon", 1, "initializes CUDA"),
    (
        "waits",
        3,
        "(sleep) still runs after the program ended and a wait of 2 s",
    ),
    (
        "cleared",
        3,
        "uses libcuda and is not traced, because it was started without the trace's variables",
    ),
    (
        "raw",
        3,
        "uses libcuda and is not traced, because it was started without the trace's variables",
    ),
    ("short", 3, "libcuda"),
    (
        "reads",
        3,
        "opened the libcuda file (to read or load it) and is not traced",
    ),
    (
        "held",
        3,
        "ended before it could be inspected, and libcuda was opened at that time",
    ),
    ("hops", 1, "initializes CUDA"),
    ("full", 3, "1 process stopped reporting"),
    ("hidden", 3, "1 process stopped reporting"),
    ("hidden-exec", 3, "1 process stopped reporting"),
    ("root", 3, "1 process stopped reporting"),
    ("init", 1, "initializes CUDA"),
    ("lasts libcuda.so.1", 1, "initializes CUDA"),
    ("nothing", 0, ""),
    ("sleeper", 0, ""),
    ("quiet-daemon", 0, ""),
    ("spaces", 0, ""),
];

#[test]
fn policy_passes_only_what_was_seen() {
    for (mode, code, says) in ESCAPES {
        if ["hidden", "hidden-exec", "root", "spaces"].contains(&mode) && !has_all_rights() {
            eprintln!("NOT TESTED: only root with all rights can leave a namespace: {mode}");
            continue;
        }
        let script = script("attacks/escapes.py");
        let command: Vec<&str> = ["python3", "-S", &script]
            .into_iter()
            .chain(mode.split(' '))
            .collect();
        // All but one end by themselves: on a busy machine 200 hops take longer than that one is waited for.
        let wait = if mode == "waits" { "2s" } else { "60s" };
        let run = || trace(&["--forbid", "cuinit", "--wait-children", wait], &command).0;
        let mut ran = run();
        // Another test may open libcuda meanwhile, which leaves an innocent program undecided.
        for _ in 0..3 {
            if code == 0 && ran.code == Some(3) {
                ran = run();
            }
        }
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            ran.code == Some(code) && said.contains(says),
            "{mode}: {ran:?}"
        );
    }
}

/// Two processes, one after the other, that have the same PID.
const REUSED: &str = "import ctypes, os, time\nlibc, cuda = ctypes.CDLL(None), ctypes.CDLL('libcuda.so.1')\n\
    def work(): cuda.cuInit(0); os._exit(0)\npid = os.fork()\nif pid == 0: work()\nos.waitpid(pid, 0)\ntime.sleep(0.1)\n\
    wanted = ctypes.c_int(pid)\nasked = (ctypes.c_uint64 * 11)()\nasked[4] = 17\nasked[8], asked[9] = ctypes.addressof(wanted), 1\n\
    again = libc.syscall(435, asked, 88)\nif again == 0: work()\nif again != pid: raise SystemExit(77)\nos.waitpid(pid, 0)\nprint(pid)";

#[test]
fn a_process_with_the_pid_of_one_that_has_ended_is_another() {
    if !is_root("choose a PID") {
        return;
    }
    let (ran, trace) = trace(&[], &["python3", "-c", REUSED]);
    if ran.code == Some(77) {
        return eprintln!("NOT TESTED: this kernel does not let a process choose a PID");
    }
    let pid: u32 = ran.stdout.trim().parse().expect("a PID");
    assert_eq!(
        trace
            .processes
            .iter()
            .filter(|process| process.pid == pid)
            .count(),
        2,
        "{ran:?}"
    );
}

#[test]
fn one_process_that_is_not_seen_has_one_sentence() {
    let script = script("attacks/escapes.py");
    let (ran, trace) = trace(&[], &["python3", "-S", &script, "cleared"]);
    assert_eq!(
        trace.end.expect("a whole trace").not_seen.len(),
        1,
        "{ran:?}"
    );
}

#[test]
fn signal_ends_the_wait_for_children() {
    let scratch = Scratch::new();
    let script = script("attacks/escapes.py");
    let tracing = tracing(
        &scratch,
        &["--wait-children", "1h"],
        &["python3", "-S", &script, "waits"],
    );
    let running = scratch.start(tracing);
    eventually("it says that it waits", LONGEST, || {
        let said = fs::read_to_string(scratch.path().join("stderr")).unwrap_or_default();
        said.contains("waiting up to 3600 s for 1 process")
            .then_some(())
    });
    running.signal(Signal::INT);
    let ran = running.wait(LONGEST);
    assert!(
        ran.code == Some(0)
            && ran
                .stderr
                .contains("because the wait for it was interrupted"),
        "{ran:?}"
    );
}

#[test]
fn exec_from_handlers_and_bad_pointers_works_as_untraced() {
    let node = Node::new("h200-x2");
    for (name, says) in [
        ("attacks/exec_in_handler.c", "failed 0\n"),
        ("attacks/bad_pointers.c", "wrong 0\n"),
    ] {
        for options in [&[][..], &["--memory"]] {
            let (ran, _) = trace(options, &[&text(node.program(name))]);
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (Some(0), says),
                "{name}: {ran:?}"
            );
        }
    }
}

fn sampler_of(tracer: i32) -> Pid {
    let find = || {
        let children = fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children")).ok()?;
        let mut pids = children
            .split_whitespace()
            .filter_map(|pid| pid.parse::<i32>().ok());
        let is_it = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|it| it.contains("__sampler"))
        };
        Pid::from_raw(pids.find(is_it)?)
    };
    eventually("a sampler", LONGEST, find)
}

/// Creates a context on each of two GPUs once it may.
const CONTEXTS: &str = "import ctypes, os, sys, time\nhere = sys.argv[1]\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\n\
    open(here + '/begun', 'w').close()\nwhile not os.path.exists(here + '/go'): time.sleep(0.01)\n\
    context = ctypes.c_void_p()\nfor gpu in (0, 1):\n    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu) == 0\n    \
    cuda.cuDevicePrimaryCtxRelease_v2(gpu)\nsys.exit(33)";

/// Runs a program with a bound on memory, while the sampler is stopped or not.
fn bounded(stops: bool) -> (Ran, Trace) {
    let scratch = Scratch::new();
    let here = scratch.path().to_string_lossy();
    let command = tracing(
        &scratch,
        &["--max-bytes", "gpu1=100MiB"],
        &["python3", "-c", CONTEXTS, &here],
    );
    let running = scratch.start(command);
    appears(&scratch.path().join("begun"));
    if stops {
        kill_process(sampler_of(running.pid()), Signal::STOP).expect("it is stopped");
    }
    File::create(scratch.path().join("go")).expect("a file");
    (running.wait(LONGEST), stored(&scratch))
}

#[test]
fn a_bound_on_memory_that_was_not_read_is_undecided() {
    let (ran, _) = bounded(false);
    ran.ended(1, "unexpected");
    let (ran, trace) = bounded(true);
    ran.ended(3, "inconclusive")
        .says("was not read until the program ended");
    // What was not read is absent, and not 0.
    let made = trace
        .events
        .iter()
        .filter(|event| matches!(event.what, EventKind::Context { .. }));
    assert!(
        made.flat_map(|event| &event.memory_bytes)
            .all(Option::is_none),
        "{:?}",
        trace.events
    );
    assert_eq!(
        trace.end.expect("a whole trace").memory_gap_ns,
        [None, None]
    );
}

#[test]
fn all_forked_writes_are_recorded_few_stacks_read() {
    let script = "import os\nfor n in range(80):\n    pid = os.fork()\n    if pid == 0:\n        \
                  os.environ['CUDA_VISIBLE_DEVICES'] = str(n); os._exit(0)\n    os.waitpid(pid, 0)";
    let (ran, trace) = trace(&[], &["python3", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let writes: Vec<_> = trace
        .events
        .iter()
        .filter(|it| matches!(it.what, EventKind::Variable { .. }))
        .collect();
    let unread = writes
        .iter()
        .filter(|event| event.stack.frames.is_empty())
        .count();
    assert_eq!((writes.len(), unread), (80, 80 - 64), "{:?}", trace.end);
    assert!(
        trace
            .processes
            .iter()
            .all(|process| process.python.is_some())
    );
}

#[test]
fn memory_bound_is_decided_by_killed_samplers_readings() {
    let held = Held::start(&["--max-bytes", "gpu1=100MiB"], "");
    held.folder();
    kill_process(sampler_of(held.running.pid()), Signal::KILL).expect("it is killed");
    let (ran, trace) = held.finish();
    let gaps = trace.end.expect("a whole trace").memory_gap_ns;
    let was_read = gaps
        .iter()
        .all(|gap| gap.is_some_and(|gap| gap <= 2_000_000_000));
    // The sampler may have been killed before it read anything.
    let was_read = was_read && trace.start.used_bytes.iter().all(Option::is_some);
    assert_eq!(
        ran.code,
        Some(if was_read { 5 } else { 3 }),
        "{gaps:?} {ran:?}"
    );
}

/// Writes a checkpoint at the first signal, which takes a while, and gives up at a second.
const CHECKPOINT: &str = "import os, signal, sys, time\nhere, came = sys.argv[1], []\n\
    def stop(*_):\n    came.append(1)\n    if len(came) == 2: os._exit(1)\n\
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1): signal.signal(number, stop)\n\
    open(here + '/ready', 'w').close()\nwhile not came: time.sleep(0.01)\n\
    until = time.monotonic() + 0.3\nwhile time.monotonic() < until: time.sleep(0.01)\nsys.exit(33)";

/// Program that starts a command in a separate terminal, and types Ctrl-C there.
const TYPED: &str = "import os, pty, sys, time\npid, terminal = pty.fork()\nif pid == 0: os.execvp(sys.argv[1], sys.argv[1:])\n\
    while not os.path.exists(os.environ['READY']): time.sleep(0.01)\nos.write(terminal, b'\\x03')\n\
    try:\n    while os.read(terminal, 4096): pass\nexcept OSError: pass\n\
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";

#[test]
fn a_signal_reaches_the_program_once_whoever_it_is_sent_to() {
    type Send = fn(Pid, Signal) -> rustix::io::Result<()>;
    let timeout = ["timeout", "-s", "USR1", "60"];
    for (before, send, signal) in [
        (&[][..], Some(kill_process as Send), Signal::TERM),
        (&[], Some(kill_process_group), Signal::TERM),
        (&[], Some(kill_process_group), Signal::USR1),
        (&timeout, Some(kill_process), Signal::USR1),
        (
            &["timeout", "--foreground", "60"],
            Some(kill_process),
            Signal::INT,
        ),
        (&["python3", "-c", TYPED], None, Signal::INT),
    ] {
        let scratch = Scratch::new();
        let ready = scratch.path().join("ready");
        let here = scratch.path().to_string_lossy();
        let tracer = tracing(&scratch, &[], &["python3", "-c", CHECKPOINT, &here]);
        let mut command = behind(before, &tracer);
        command.env("READY", &ready).process_group(0);
        let running = scratch.start(command);
        appears(&ready);
        send.map_or(Ok(()), |send| {
            send(Pid::from_raw(running.pid()).expect("a PID"), signal)
        })
        .expect("it is sent");
        let ran = running.wait(LONGEST);
        assert_eq!(ran.code, Some(33), "{before:?}, {signal:?}: {ran:?}");
    }
}

/// Creates a context at a line of a file that it may no longer open: Landlock denies every file to this thread.
const LOCKED: &str = "import ctypes, sys\nlibc, cuda = ctypes.CDLL(None), ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\n\
    context = ctypes.c_void_p()\nretain = compile('\\ncuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)', sys.argv[1], 'exec')\n\
    if len(sys.argv) > 2:\n    rules = libc.syscall(444, ctypes.byref(ctypes.c_uint64(4)), ctypes.c_size_t(8), 0)\n    \
    if rules < 0 or libc.syscall(446, rules, 0): sys.exit(77)\nexec(retain)";

#[test]
fn a_line_is_shown_where_the_thread_itself_may_open_its_file() {
    let folder = Scratch::new();
    let file = folder.path().join("secret.py");
    fs::write(&file, "\nkey = 'hunter2'\n").expect("a file");
    for (locked, is_shown) in [(None, true), (Some("locked"), false)] {
        let mut words = vec!["python3", "-c", LOCKED, file.to_str().expect("UTF-8")];
        words.extend(locked);
        let scratch = Scratch::new();
        let mut command = tracing(&scratch, &[], &words);
        // Landlock requires it of the program, and the tracer has it too: no line of their states differs. SAFETY:
        // prctl may be called between fork and exec.
        unsafe { command.pre_exec(|| Ok(rustix::thread::set_no_new_privs(true)?)) };
        let ran = scratch.start(command).wait(LONGEST);
        if ran.code == Some(77) {
            return eprintln!("NOT TESTED: this kernel has no Landlock");
        }
        let events = format!("{:?}", stored(&scratch).events);
        assert_eq!(
            (ran.code, events.contains("hunter2")),
            (Some(0), is_shown),
            "{events}"
        );
    }
}
