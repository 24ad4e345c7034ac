//! Programs of a user's, compiled or found here, on a simulated machine's folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{LONGEST, Ran, Scratch, root};

/// A folder of its own with a simulated machine in it.
pub(crate) struct Node {
    pub(crate) scratch: Scratch,
    /// The folder of links, which is to be first in `LD_LIBRARY_PATH`.
    pub(crate) links: PathBuf,
}

impl Node {
    pub(crate) fn new(machine: &str) -> Node {
        let scratch = Scratch::new();
        let links = cuda_pitfalls::simulated::lay_out(machine, &scratch.path().join("machine"));
        Node { links: links.expect("the simulated machine is laid out"), scratch }
    }

    /// A file of this node's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A command that finds the simulated machine, not yet started. The variables of CUDA that these tests' caller may have are not
    /// its own.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let of_cuda = |name: &OsStr| {
            ["CUDA_", "NVIDIA_", "LD_"].iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()))
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| of_cuda(name)) {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", &self.links).env("TMPDIR", self.scratch.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: Command) -> Ran {
        self.scratch.start(command).wait(LONGEST)
    }

    /// Compiles a C file of the package to a file of this node's folder.
    pub(crate) fn compile(&self, source: &str, name: &str, options: &[&str]) -> PathBuf {
        let out = self.file(name);
        let mut command = Command::new("cc");
        command.args(["-Wall", "-Werror", "-g", "-O1", "-o"]).arg(&out).arg(root().join(source)).args(options);
        let output = command.arg("-ldl").arg("-lpthread").output().expect("cc starts");
        assert!(output.status.success(), "{source} does not compile:\n{}", String::from_utf8_lossy(&output.stderr));
        out
    }

    /// A C program of `tests/traced`, compiled at the first call. One that names functions of libcuda itself is linked with it.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let out = self.file(name.trim_end_matches(".c"));
        if out.is_file() {
            return out;
        }
        let folder = format!("-L{}", self.links.display());
        let linked: &[&str] = if name == "linked.c" { &[&folder, "-l:libcuda.so.1"] } else { &[] };
        self.compile(&traced(name).to_string_lossy(), name.trim_end_matches(".c"), linked)
    }
}

/// Whether a tool is there; says loudly what is not tested where it is not. `.ci/run` installs it.
pub(crate) fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("NOT TESTED: there is no {tool} on this machine");
    }
    found
}

/// A program of `tests/traced`, by its path below the package.
pub(crate) fn traced(name: impl AsRef<Path>) -> PathBuf {
    Path::new("tests/traced").join(name)
}

/// What a program says that a trace of it shows: the label and the event, in the order of the file.
pub(crate) fn events(program: &Path) -> Vec<(String, String)> {
    let text = text(program);
    let said = text.lines().filter_map(|line| line.trim_start_matches(['#', ' ', '*']).strip_prefix("shows "));
    let said = said.filter_map(|line| line.split_once(": "));
    said.map(|(label, event)| (label.to_string(), event.to_string())).collect()
}

/// The line of a program at which the stack of a label's event points, from 1 on.
pub(crate) fn lines_of(program: &Path) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    for (number, line) in (1..).zip(text(program).lines()) {
        let Some((_, labels)) = line.split_once("here: ") else { continue };
        for label in labels.trim_end_matches("*/").split(',') {
            lines.insert(label.trim().to_string(), number);
        }
    }
    lines
}

fn text(program: &Path) -> String {
    std::fs::read_to_string(root().join(traced(program))).expect("a program of tests/traced")
}
