//! A small Slurm cluster of one test on this machine, with its own munge, its own ports and its own state. Each node is
//! a slurmd in a PID namespace, so that killing it also kills everything that it started, as when a machine loses
//! power.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::common::{Scratch, eventually};

/// Longer than a cluster takes to start on a busy machine.
const LONGEST: Duration = Duration::from_secs(40);

/// Directories where Debian installs daemons, which are not on every user's PATH.
const SBIN: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// The programs that a test needs, by the Debian package that has them.
const PROGRAMS: [(&str, &str); 7] = [
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("sbatch", "slurm-client"),
    ("srun", "slurm-client"),
    ("scontrol", "slurm-client"),
    ("munged", "munge"),
    ("unshare", "util-linux"),
];

fn path() -> String {
    format!("{}:{SBIN}", std::env::var("PATH").unwrap_or_default())
}

/// Returns what this machine lacks to run a cluster; `None` if nothing is missing.
pub(crate) fn missing() -> Option<String> {
    let path = path();
    let is_there =
        |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let absent: Vec<_> = PROGRAMS
        .iter()
        .filter(|(name, _)| !is_there(name))
        .collect();
    if !absent.is_empty() {
        let of = absent
            .iter()
            .map(|(name, package)| format!("{name} (package {package})"));
        return Some(format!(
            "not installed: {}",
            of.collect::<Vec<_>>().join(", ")
        ));
    }
    if !rustix::process::geteuid().is_root() {
        return Some("not root, and slurmd and its PID namespace take it".into());
    }
    let namespace = namespace(&["true"])
        .env("PATH", path)
        .stderr(Stdio::null())
        .status();
    (!namespace.is_ok_and(|status| status.success()))
        .then(|| "this machine allows no PID namespace".into())
}

/// Returns a program in a PID namespace; none of its processes outlives the one that started it.
fn namespace(program: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--mount", "--fork", "--mount-proc", "--kill-child"])
        .args(program);
    command
}

/// Returns unused ports. They are below those that the kernel gives to outgoing connections, which would otherwise take
/// one before its daemon does; and no two clusters of this process get the same.
fn ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    ports
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .take(count)
        .collect()
}

/// A cluster that runs. Dropping it ends it.
pub(crate) struct Cluster {
    scratch: Scratch,
    daemons: Vec<(String, Child)>,
}

impl Cluster {
    /// Nodes `node1` to `node<nodes>`, each with two GPUs by its configuration. `prepare` gets the cluster's folder
    /// before anything starts, and returns more lines of slurm.conf.
    pub(crate) fn start(nodes: usize, prepare: impl FnOnce(&Path) -> String) -> Cluster {
        let scratch = Scratch::new();
        let at = scratch.path().to_path_buf();
        for folder in ["state", "log", "spool", "tmp"] {
            fs::create_dir(at.join(folder)).expect("a folder of our own");
        }
        let settings = prepare(&at);
        let mut key = OpenOptions::new();
        let key = key
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(at.join("munge.key"));
        let random = File::open("/dev/urandom").expect("the machine has it");
        std::io::copy(
            &mut std::io::Read::take(random, 1024),
            &mut key.expect("a file of our own"),
        )
        .expect("a key");
        let ports = ports(nodes + 1);
        let port = |index: usize| ports[index];
        let mut conf = CONF
            .replace("SCRATCH", &at.to_string_lossy())
            .replace("PORT", &port(0).to_string());
        for index in 1..=nodes {
            conf += &format!(
                "NodeName=node{index} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs=2 RealMemory=100 Gres=gpu:2\n",
                port(index)
            );
        }
        conf += &settings;
        fs::write(at.join("slurm.conf"), conf).expect("a file of our own");
        // Slurm wants a device for each GPU. It opens none, because nothing here confines jobs to devices.
        let gres = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n";
        fs::write(at.join("gres.conf"), gres).expect("a file of our own");

        let mut cluster = Cluster {
            scratch,
            daemons: Vec::new(),
        };
        let file = |name: &str| format!("--{name}={}", at.join(name).display());
        let munge = [
            file("socket"),
            file("pid-file"),
            file("seed-file"),
            format!("--key-file={}/munge.key", at.display()),
        ];
        let munged = [
            &[
                "munged".to_owned(),
                "--foreground".to_owned(),
                "--force".to_owned(),
            ][..],
            &munge,
        ]
        .concat();
        cluster.daemon(
            "munged",
            &munged.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        eventually("munged listens", LONGEST, || {
            at.join("socket").exists().then_some(())
        });
        cluster.daemon("slurmctld", &["slurmctld", "-D", "-c"]);
        for index in 1..=nodes {
            let name = format!("node{index}");
            fs::create_dir(at.join("spool").join(&name)).expect("a folder of our own");
            // Not as the first process of its namespace, because its signals are handled
            // differently.
            cluster.daemon(&name, &["sh", "-c", "slurmd -D -N \"$0\" & wait", &name]);
        }
        eventually("all nodes are there", LONGEST, || {
            // A health check may have drained one already.
            let is_there = |state: &str| ["idle", "drained"].contains(&state);
            let states = cluster.ask(&["sinfo", "--Node", "--noheader", "--format=%T"]);
            (states.lines().count() == nodes && states.lines().all(is_there)).then_some(())
        });
        cluster
    }

    fn daemon(&mut self, name: &str, program: &[&str]) {
        let log = File::create(self.path().join("log").join(name)).expect("a file of our own");
        let mut command = namespace(program);
        self.surround(&mut command)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a second descriptor"))
            .stdout(log);
        // SAFETY: between fork and exec, this only sets the signal that the process gets when its
        // parent ends.
        unsafe {
            command.pre_exec(|| {
                // If the test is killed, nobody drops the cluster.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        self.daemons
            .push((name.to_owned(), command.spawn().expect("unshare starts")));
    }

    fn surround<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("PATH", path())
            .env("SLURM_CONF", self.path().join("slurm.conf"))
            .env("TMPDIR", self.path().join("tmp"))
    }

    /// Returns the directory that all nodes share.
    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns a Slurm program, not yet started.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.surround(&mut command).stdin(Stdio::null());
        command
    }

    /// Returns the output of a Slurm program; empty if it fails, such as while the controller starts.
    pub(crate) fn ask(&self, program: &[&str]) -> String {
        let output = self
            .command(program[0])
            .args(&program[1..])
            .output()
            .expect("the program starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns a field of `scontrol show node`.
    pub(crate) fn field(&self, node: &str, name: &str) -> Option<String> {
        let shown = self.ask(&["scontrol", "show", "node", node]);
        let value = shown
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        value.map(str::to_owned)
    }

    /// Submits a script, which finds the program that the test put next to slurm.conf, and returns its job's number.
    pub(crate) fn submit(&self, arguments: &[&str]) -> u32 {
        let log = format!("--output={}", self.path().join("log/job").display());
        let mut command = self.command("sbatch");
        command
            .args(["--parsable", &log])
            .args(arguments)
            .env("CUDA_PITFALLS", self.path().join("program"));
        command.env("CUDA_PITFALLS_MERGE", "--simulated");
        let output = command.output().expect("sbatch starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        printed
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("no job: {output:?}\n{}", self.logs()))
    }

    /// Waits for a job's end, and returns its state and exit code as `scontrol` prints them, such as `COMPLETED 0:0`.
    pub(crate) fn ended(&self, job: u32) -> String {
        eventually(&format!("job {job} ends"), LONGEST, || {
            let shown = self.ask(&["scontrol", "show", "job", &job.to_string()]);
            let field = |name: &str| {
                shown
                    .split_whitespace()
                    .find_map(|word| word.strip_prefix(name))
                    .map(str::to_owned)
            };
            let state = field("JobState=")?;
            let is_over =
                !["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"].contains(&state.as_str());
            is_over.then(|| format!("{state} {}", field("ExitCode=").unwrap_or_default()))
        })
    }

    /// Kills a node with all that runs on it.
    pub(crate) fn kill(&mut self, node: &str) {
        let (_, child) = self
            .daemons
            .iter_mut()
            .find(|(name, _)| name == node)
            .expect("a node of this cluster");
        child.kill().expect("it is a child of ours");
        child.wait().expect("it can be waited for");
    }

    /// Returns the output of the daemons and the job, for the message of a failure.
    pub(crate) fn logs(&self) -> String {
        let mut files: Vec<PathBuf> = fs::read_dir(self.path().join("log"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        files.sort();
        let text = |file: &PathBuf| {
            let text = fs::read(file).unwrap_or_default();
            format!(
                "== {}\n{}\n",
                file.display(),
                String::from_utf8_lossy(&text)
            )
        };
        files.iter().map(text).collect()
    }

    /// Ends the cluster and fails if anything of it is left.
    pub(crate) fn end(mut self) {
        self.stop();
        // The kernel kills the processes in a namespace after its first process has ended.
        eventually("no process is left", LONGEST, || {
            self.scratch.processes().is_empty().then_some(())
        });
    }

    /// Stops the cluster: `unshare` kills its child when it is killed, and with it the namespace.
    fn stop(&mut self) {
        for (_, mut child) in self.daemons.drain(..).rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// Configuration of the cluster. It uses nothing of this machine's own Slurm, and nothing that needs cgroups.
const CONF: &str = "\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=SCRATCH/socket
CredType=cred/munge
StateSaveLocation=SCRATCH/state
SlurmdSpoolDir=SCRATCH/spool/%n
SlurmctldPidFile=SCRATCH/slurmctld.pid
SlurmdPidFile=SCRATCH/%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=3
SlurmctldTimeout=3
MessageTimeout=3
TCPTimeout=1
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
GresTypes=gpu
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
";
