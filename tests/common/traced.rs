//! A user's programs, compiled or found here, with the folder of a simulated machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Ran, Scratch, root};

/// A directory with a simulated machine in it.
pub(crate) struct Node {
    pub(crate) scratch: Scratch,
    /// The folder of links, which must come first in `LD_LIBRARY_PATH`.
    pub(crate) links: PathBuf,
}

impl Node {
    pub(crate) fn new(machine: &str) -> Node {
        let scratch = Scratch::new();
        let links = cuda_pitfalls::simulated::lay_out(machine, &scratch.path().join("machine"));
        Node {
            links: links.expect("the simulated machine is laid out"),
            scratch,
        }
    }

    /// Returns a file of this node's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns a command that finds the simulated machine, not yet started.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", &self.links)
            .env("TMPDIR", self.scratch.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: Command) -> Ran {
        self.scratch.ran(command)
    }

    /// Compiles a C file of the package to a file of this node's folder.
    pub(crate) fn compile(&self, source: &str, name: &str, options: &[&str]) -> PathBuf {
        let out = self.file(name);
        let mut command = Command::new("cc");
        command
            .args(["-Wall", "-Werror", "-g", "-O1", "-o"])
            .arg(&out)
            .arg(root().join(source))
            .args(options);
        let output = command
            .arg("-ldl")
            .arg("-lpthread")
            .output()
            .expect("cc starts");
        assert!(
            output.status.success(),
            "{source} does not compile:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        out
    }

    /// Returns a C program of `tests/traced`, compiled at the first call. A program that uses libcuda functions itself
    /// is linked with it.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let named = name.trim_end_matches(".c").replace('/', "-");
        let out = self.file(&named);
        if out.is_file() {
            return out;
        }
        let folder = format!("-L{}", self.links.display());
        let linked: &[&str] = if name == "linked.c" {
            &[&folder, "-l:libcuda.so.1"]
        } else {
            &[]
        };
        self.compile(&traced(name).to_string_lossy(), &named, linked)
    }
}

/// A Python program that creates a context and allocates 64 MiB, without checking any result.
pub(crate) const MAKES_A_CONTEXT: &str = "
import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20))
";

/// Text of the tracer about a thread that it did not inspect in time.
pub(crate) const LATE: &str = "within two seconds";

/// Returns the result of the first attempt where the tracer was in time, or of the last of three. A busy machine may
/// delay the tracer, which is a different failure than a wrong stack.
pub(crate) fn in_time<T>(is_late: impl Fn(&T) -> bool, attempt: impl FnMut() -> T) -> T {
    let mut attempts = std::iter::repeat_with(attempt);
    attempts
        .by_ref()
        .take(2)
        .find(|one| !is_late(one))
        .unwrap_or_else(|| attempts.next().expect("another attempt"))
}

/// Returns a program of `tests/traced`, by its path below the package.
pub(crate) fn traced(name: impl AsRef<Path>) -> PathBuf {
    Path::new("tests/traced").join(name)
}

/// Returns the events that a program announces for its trace: the label and the event, in the order of the file.
pub(crate) fn events(program: &Path) -> Vec<(String, String)> {
    let text = text(program);
    let said = text.lines().filter_map(|line| {
        line.trim_start_matches(['#', ' ', '*'])
            .strip_prefix("shows ")
    });
    let said = said.filter_map(|line| line.split_once(": "));
    said.map(|(label, event)| (label.to_string(), event.to_string()))
        .collect()
}

/// Returns the line of a program that the stack of each label's event points at, from 1 on.
pub(crate) fn lines_of(program: &Path) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    for (number, line) in (1..).zip(text(program).lines()) {
        let Some((_, labels)) = line.split_once("here: ") else {
            continue;
        };
        for label in labels.trim_end_matches("*/").split(',') {
            lines.insert(label.trim().to_string(), number);
        }
    }
    lines
}

fn text(program: &Path) -> String {
    std::fs::read_to_string(root().join(traced(program))).expect("a program of tests/traced")
}

/// A program, its arguments, its exit code (none if a signal ends it), and its output: all of it, or the beginning if
/// that does not end a line.
pub(crate) struct Program(
    pub(crate) &'static str,
    pub(crate) &'static [&'static str],
    pub(crate) Option<i32>,
    pub(crate) &'static str,
);

/// Every program of `tests/traced` with its behavior when it is not traced.
pub(crate) const PROGRAMS: &[Program] = &[
    Program("late_mask.py", &[], Some(0), "available True\ndevices 2\n"),
    Program("stray_context.py", &[], Some(0), "model on cuda:1\ndone\n"),
    Program("guard.py", &[], Some(0), "array on 1\n"),
    Program("fork_after_init.py", &[], Some(0), "child refused True\n"),
    Program("silent_fork.py", &[], Some(0), "child 1 others [0, 0]\n"),
    Program("raw_fork.py", &[], Some(0), "child refused True\n"),
    Program("unseen_write.py", &[], Some(0), "written True\n"),
    Program("spawn.py", &[], Some(0), "spawn 1\nforkserver 1\nbare 0\n"),
    Program("spawn.py", &["bare"], Some(0), "bare 0\n"),
    Program("threads.py", &[], Some(0), "done\n"),
    Program("pinned.py", &[], Some(0), "pinned True\n"),
    Program("late_limit.py", &[], Some(0), "late 1\n"),
    Program("closes_fds.py", &[], Some(0), "done\n"),
    Program("absolute_path.py", &[], Some(0), "done\n"),
    Program(
        "many_children.py",
        &["20", "3"],
        Some(0),
        "children 20 failed 0\n",
    ),
    Program("many_children.py", &[], Some(0), "children 200 failed 0\n"),
    Program("setuid.py", &[], Some(0), "root False\ndone\n"),
    Program("exec_in_thread.py", &[], Some(0), "done\n"),
    Program("exec_sets_mask.py", &[], Some(0), "done\n"),
    Program("mask_hides.py", &[], Some(0), "status 100\n"),
    Program("mask_threads.py", &[], Some(0), "mask 1\n"),
    Program("misspelt_mask.py", &[], Some(0), "done\n"),
    Program("idle_worker.py", &[], Some(0), "5\n"),
    Program("thread_device.py", &[], Some(0), "done\n"),
    Program("crowd.py", &[], Some(0), "done\n"),
    Program("reordered.py", &[], Some(0), "done\n"),
    Program("exec_after_work.py", &[], Some(0), "done\n"),
    Program("own_number.py", &[], Some(0), "done\n"),
    Program("preload.py", &[], Some(0), "child 0\n"),
    Program("second_init.py", &[], Some(0), "first 100\nsecond 0\n"),
    Program("no_cuda.py", &[], Some(0), "child 0\n"),
    Program("long_stack.py", &[], Some(0), "frames 900\n"),
    Program("early_exit.py", &[], Some(3), ""),
    Program("killed.py", &[], None, ""),
    Program("late_mask.c", &[], Some(0), "devices 2\n"),
    Program("linked.c", &[], Some(0), "done 0\n"),
    Program("by_address.c", &[], Some(0), "done 0, no such function 0\n"),
    Program(
        "launch_loop.c",
        &["1000"],
        Some(0),
        "launches 1000, ns_per_launch ",
    ),
    Program("no_cuda.c", &[], Some(0), "0\n"),
    Program("threads.c", &[], Some(0), "failed 0\n"),
];

/// Runs a program, not traced.
pub(crate) fn run(node: &Node, program: &Program) -> Ran {
    node.run(command(node, program))
}

/// Returns a program, not traced and not yet started.
pub(crate) fn command(node: &Node, program: &Program) -> Command {
    let mut command = if program.0.ends_with(".py") {
        let mut command = node.command("python3");
        // Compiled files stay out of the checkout.
        command
            .arg(root().join(traced(program.0)))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    } else {
        node.command(node.program(program.0))
    };
    command.args(program.1);
    command
}
