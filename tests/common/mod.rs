//! Helpers that the test programs share: running the program in a separate directory, with a time limit, and observing
//! every process it has started.

#![allow(dead_code, reason = "each test program uses a part of this")]

pub(crate) mod browser;
pub(crate) mod closed;
pub(crate) mod counts;
pub(crate) mod evidence;
pub(crate) mod fleets;
pub(crate) mod traced;
pub(crate) mod trials;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, UNIX_EPOCH};

use cuda_pitfalls::report::{Report, ScenarioReport};
use cuda_pitfalls::scenario::Hazard;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CapabilitySet;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cuda-pitfalls");

/// Longer than anything takes, however busy the machine is. Only a process that hangs is waited for this long.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

/// Returns the package's directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns `true` if expected texts are to be rewritten.
pub(crate) fn bless() -> bool {
    std::env::var_os("CUDA_PITFALLS_BLESS").is_some()
}

/// Returns the number of GPUs of this host, counted without any CUDA in this process.
pub(crate) fn gpus() -> usize {
    let is_gpu = |name: &str| {
        name.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names = fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter(|name| name.to_str().is_some_and(is_gpu))
        .count()
}

/// Returns `true` if this is root with all rights: in containers, root often may not mount or look into other processes.
pub(crate) fn has_all_rights() -> bool {
    let rights = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(rights))
}

/// Returns a command with its environment, as the arguments of another one, such as `timeout 60`.
pub(crate) fn behind(before: &[&str], command: &Command) -> Command {
    let mut words = before
        .iter()
        .map(OsStr::new)
        .chain([command.get_program()])
        .chain(command.get_args());
    let mut behind = Command::new(words.next().expect("a program"));
    behind.args(words).envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    behind
}

/// Exit code and output of a program.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// The command line, for the words of a test that fails.
    command: String,
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Returns stdout, which must be exactly one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "stdout is not one JSON document ({error}):\n{}\n{}",
                self.stdout, self.stderr
            )
        })
    }

    /// Returns `self`; fails unless the program ended with this exit code and named it.
    pub(crate) fn ended(self, code: i32, name: &str) -> Ran {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self.says(&format!("exit {code} ({name})"))
    }

    /// Returns `self`; fails unless the program succeeded.
    pub(crate) fn good(self) -> Ran {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Returns `self` with each stream as one line, for a phrase that may be broken at the width of the output.
    pub(crate) fn join_lines(mut self) -> Ran {
        for stream in [&mut self.stdout, &mut self.stderr] {
            *stream = stream.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        self
    }

    /// Returns `self`; fails unless these words are on stderr.
    pub(crate) fn says(self, words: &str) -> Ran {
        assert!(
            self.stderr.contains(words),
            "`{words}` is not on stderr: {self:#?}"
        );
        self
    }

    /// Returns `self`; fails unless these words are on stdout.
    pub(crate) fn prints(self, words: &str) -> Ran {
        assert!(
            self.stdout.contains(words),
            "`{words}` is not on stdout: {self:#?}"
        );
        self
    }
}

/// A separate folder for one test. Every process that the program starts has it in its environment, so that none can be
/// overlooked, not even one that left its session and its parents.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(
            tempfile::Builder::new()
                .prefix("pitfalls-test-")
                .tempdir()
                .expect("a folder of our own"),
        )
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a file of this name, as an argument.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path().join(name).to_string_lossy().into_owned()
    }

    /// Writes a file here, and returns its path, as an argument.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.at(name);
        fs::write(&path, text).expect("a file of our own");
        path
    }

    /// Returns the directory of reports.
    pub(crate) fn reports(&self) -> PathBuf {
        self.path().join("reports")
    }

    /// Returns the program with these arguments, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .current_dir(root())
            .env("TMPDIR", self.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        // The program respects what its caller ignores, and these tests may be run in the background.
        // SAFETY: between fork and exec only the action of signals is set.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command
    }

    /// Starts a program; what it prints goes to files, so that it never waits for a reader.
    pub(crate) fn start(&self, mut command: Command) -> Running {
        let file = |name| File::create(self.path().join(name)).expect("a file of our own");
        command.stdout(file("stdout")).stderr(file("stderr"));
        let child = command.spawn().expect("the program starts");
        Running {
            child,
            folder: self.path().to_path_buf(),
            command: format!("{command:?}"),
        }
    }

    /// Runs a program to its end.
    pub(crate) fn ran(&self, command: Command) -> Ran {
        self.start(command).wait(LONGEST)
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.ran(self.command(arguments))
    }

    /// Runs the program on a terminal, with both of its outputs as one.
    pub(crate) fn run_on_terminal(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let plain = self.command(arguments);
        let mut command = Command::new("python3");
        let spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
        command.args(["-c", spawn, PROGRAM]).args(arguments);
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .envs(variables.iter().copied());
        command.current_dir(root()).stdin(Stdio::null());
        self.ran(command)
    }

    /// Returns a simulated run whose report goes to this directory and to stdout, not yet started.
    pub(crate) fn simulating(&self, machine: &str, selectors: &[&str], more: &[&str]) -> Command {
        self.command(
            &[
                &["run"],
                selectors,
                &["--on", machine, "--json", "--out", &self.at("reports")],
                more,
            ]
            .concat(),
        )
    }

    /// Runs scenarios on a simulated machine, each case once, and returns the report.
    pub(crate) fn simulate(
        &self,
        machine: &str,
        selectors: &[&str],
        more: &[&str],
    ) -> (Ran, Report) {
        let ran = self.simulated(machine, selectors, more);
        let report = serde_json::from_value(ran.json());
        let report = report.unwrap_or_else(|error| {
            panic!(
                "stdout is no report ({error}):\n{}\n{}",
                ran.stdout, ran.stderr
            )
        });
        (ran, report)
    }

    /// Returns the same run, whichever format its report has.
    pub(crate) fn simulated(&self, machine: &str, selectors: &[&str], more: &[&str]) -> Ran {
        self.ran(self.simulating(machine, selectors, more))
    }

    /// Returns the directory of the only run or survey, once it exists.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        Some(fs::read_dir(self.reports()).ok()?.flatten().next()?.path())
    }

    /// Returns the report on disk, once it exists.
    pub(crate) fn stored(&self) -> Option<Report> {
        cuda_pitfalls::report::read(&self.folder()?).ok()
    }

    /// Returns the processes that were started here and still run, with their command lines.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let mark = self.path().to_string_lossy().into_owned();
        let read = |pid: i32, name: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let pids = fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter_map(|entry| {
                let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
                read(pid, "environ")
                    .contains(&mark)
                    .then(|| (pid, read(pid, "cmdline")))
            });
        pids.collect()
    }

    /// Waits until a process that was started here sleeps, as a worker does in `pause` and in `nanosleep`: it makes
    /// steps then, and has not finished them.
    pub(crate) fn sleeper(&self) -> i32 {
        eventually("a worker is in the middle of a step", LONGEST, || {
            let sleeps = |(pid, line): &(i32, String)| {
                (line.contains("__worker") || line.contains("__child"))
                    && is_in_call(*pid, libc::SYS_clock_nanosleep)
            };
            self.processes()
                .iter()
                .find(|it| sleeps(it))
                .map(|(pid, _)| *pid)
        })
    }

    /// Fails if a process that was started here still runs.
    pub(crate) fn assert_no_process_left(&self) {
        let left = self.processes();
        assert!(left.is_empty(), "still running: {left:?}");
    }
}

impl Drop for Scratch {
    /// Cleans up, because a test that fails must not leave its processes behind.
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// A program under way.
pub(crate) struct Running {
    child: Child,
    folder: PathBuf,
    command: String,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a PID is not 0");
        kill_process(pid, signal).expect("it can be signalled");
    }

    /// Waits for its end, and fails the test if it does not end in time. `longest` is for programs that take longer
    /// than [`LONGEST`], which already allows for a busy machine.
    pub(crate) fn wait(mut self, longest: Duration) -> Ran {
        let (started, longest) = (Instant::now(), longest.max(LONGEST));
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                let text = |name| {
                    String::from_utf8_lossy(&fs::read(self.folder.join(name)).unwrap_or_default())
                        .into_owned()
                };
                return Ran {
                    command: self.command,
                    code: status.code(),
                    stdout: text("stdout"),
                    stderr: text("stderr"),
                };
            }
            if started.elapsed() > longest {
                let _ = self.child.kill();
                let _ = self.child.wait();
                let text = fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
                panic!("the program did not end within {longest:?}:\n{text}");
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

/// Returns the names in a directory, in order.
pub(crate) fn names_in(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Reads a file of the package.
pub(crate) fn read_text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Reads a document, which may be packed.
pub(crate) fn read_document(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let text = evidence::read_file(path).map(String::from_utf8);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a JSON document in a file, which may be packed.
pub(crate) fn read_json<T: DeserializeOwned>(path: impl AsRef<Path>) -> T {
    let path = path.as_ref();
    let text =
        evidence::read_file(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a script that can be run. Another process writes it: what another test starts at that moment would inherit this
/// one's descriptor, and a file that is open for writing does not run (`ETXTBSY`).
pub(crate) fn script(path: &Path, text: &str) {
    let mut install = Command::new("install");
    let install = install.args([
        OsStr::new("--mode=755"),
        OsStr::new("/dev/stdin"),
        path.as_os_str(),
    ]);
    let mut install = install.stdin(Stdio::piped()).spawn().expect("install");
    install
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text.as_bytes())
        .expect("it reads");
    assert!(
        install.wait().expect("it ends").success(),
        "{}",
        path.display()
    );
}

/// Writes a program that behaves as on a machine with GPUs: its simulated machine answers, and its reports claim that a
/// real driver did. It allows testing code that forwards a report's answer without a GPU. `also` is one more command
/// for sed.
pub(crate) fn as_if_measured(path: &Path, also: &str) {
    let text = format!(
        r#"#!/bin/sh
trap : TERM
{PROGRAM} "$@"
code=$?
[ "$1" = run ] || exit $code
out=
for word; do
    [ "${{last:-}}" != --out ] || out=$word
    last=$word
done
find "$out" -name report.json -exec sed -i -e 's/"provenance":"simulated"/"provenance":"measured"/g'     -e 's/"simulated":true/"simulated":false/g' -e 's/"on":"sim:[^"]*"/"on":"cuda"/' -e 's/"pci_gpus":[0-9]*,//'     -e 's/libcuda_pitfalls_sim/libcuda/g' -e 's/GPU-000000/GPU-00a000/g'     -e '{also}' {{}} +
exit $code
"#
    );
    script(path, &text);
}

/// Waits until a condition holds, and fails if it does not within `longest`, or [`LONGEST`] if that is more.
pub(crate) fn eventually<T>(
    what: &str,
    longest: Duration,
    mut test: impl FnMut() -> Option<T>,
) -> T {
    let (started, longest) = (Instant::now(), longest.max(LONGEST));
    loop {
        if let Some(found) = test() {
            return found;
        }
        assert!(
            started.elapsed() < longest,
            "not within {longest:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns `true` if a thread of a process is in a system call of this number.
pub(crate) fn is_in_call(pid: i32, number: i64) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let calls = threads.filter_map(|thread| fs::read_to_string(thread.path().join("syscall")).ok());
    calls
        .into_iter()
        .any(|call| call.split_whitespace().next() == Some(number.to_string().as_str()))
}

/// Returns the results of all questions, run once on a simulated machine with two GPUs, as one report for each part,
/// made at the same time. The test programs that one process starts share them: they lie below the target directory, in
/// a file that is named after that process and after the program.
pub(crate) fn all_simulated() -> &'static [Report] {
    static ALL: OnceLock<Vec<Report>> = OnceLock::new();
    ALL.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("all-simulated");
        fs::create_dir_all(&folder).expect("a folder of our own");
        let lock = File::create(folder.join("lock")).expect("a file of our own");
        lock.lock().expect("it can be locked");
        let built = fs::metadata(PROGRAM)
            .and_then(|file| file.modified())
            .expect("the program is there");
        let built = built
            .duration_since(UNIX_EPOCH)
            .expect("it was built after 1970")
            .as_nanos();
        let kept = folder.join(format!("{}-{built}.json", parent_id()));
        if let Ok(text) = fs::read(&kept) {
            return serde_json::from_slice(&text).expect("reports of this program");
        }
        let reports = ask_all();
        for earlier in fs::read_dir(&folder)
            .expect("our folder")
            .flatten()
            .filter(|file| file.file_name() != "lock")
        {
            let _ = fs::remove_file(earlier.path());
        }
        fs::write(
            &kept,
            serde_json::to_vec(&reports).expect("reports are JSON"),
        )
        .expect("a file of our own");
        reports
    })
}

/// Runs all questions in four parts, which keep two cores busy, because a run waits for its processes half of the time.
fn ask_all() -> Vec<Report> {
    let allowed: Vec<&str> = Hazard::ALL
        .iter()
        .flat_map(|hazard| ["--allow", hazard.name()])
        .collect();
    std::thread::scope(|scope| {
        let parts = ["1/4", "2/4", "3/4", "4/4"].map(|part| {
            let more = [&["--repeat", "1", "--shard", part][..], &allowed].concat();
            scope.spawn(move || Scratch::new().simulate("sim:h200-x2", &["all"], &more).1)
        });
        parts
            .map(|part| part.join().expect("a part of the questions is answered"))
            .into()
    })
}

/// Returns a scenario's part of a report, by the instance's name.
pub(crate) fn part<'r>(report: &'r Report, name: &str) -> &'r ScenarioReport {
    let found = report
        .scenarios
        .iter()
        .find(|scenario| scenario.name == name);
    found.unwrap_or_else(|| panic!("{name} is not in the report"))
}

/// Returns the errors of the committed schema of this name for a document.
pub(crate) fn against_schema(name: &str, document: &Value) -> Vec<String> {
    let schema = read_json(root().join(format!("reports/{name}.schema.json")));
    let validator = jsonschema::validator_for(&schema).expect("a schema can be used");
    validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// Returns the reports that are committed: directory names and paths.
pub(crate) fn committed_reports() -> Vec<(String, PathBuf)> {
    committed_documents(cuda_pitfalls::report::REPORT)
}

/// Returns the committed reports, read once for all tests of a program.
pub(crate) fn read_reports() -> &'static [(String, Report)] {
    static ALL: OnceLock<Vec<(String, Report)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let read = |(name, path): (String, PathBuf)| match cuda_pitfalls::report::read(&path) {
            Ok(report) => (name, report),
            Err(error) => panic!("{error}"),
        };
        committed_reports().into_iter().map(read).collect()
    })
}

/// Returns the committed documents in files of this name: directory names and paths.
pub(crate) fn committed_documents(file: &str) -> Vec<(String, PathBuf)> {
    evidence::documents(&root().join("reports"), file).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns every file of the committed evidence.
pub(crate) fn evidence() -> Vec<PathBuf> {
    let find = |one: &evidence::Listed| {
        one.find(&root().join("reports"))
            .unwrap_or_else(|error| panic!("{error}"))
    };
    evidence::listed().iter().map(find).collect()
}
