//! Rules of the filter of a `seccomp` step: a denied file, a denied system call, or nothing. The module is pure:
//! [`crate::refusal`] decides, and the owner of the filter answers.

use std::fmt;
use std::str::FromStr;

use glob::{MatchOptions, Pattern};
use syscalls::Sysno;

/// The name of the step that denies files and system calls.
pub const STEP: &str = "seccomp";
/// The argument of the step that selects what the filter denies.
pub const WHAT: &str = "refuse";
/// The argument of the step with the error.
pub const ERROR: &str = "with";
/// The argument of a filter that denies nothing.
pub const NOTHING: &str = "nothing";

/// The directory that represents `/` of the simulated machine. Its driver requests its needs there, and opens nothing.
pub const SIMULATED: &str = "/cuda-pitfalls-sim";
/// `EISNAM`: the answer to the simulated driver for a file that no rule denies.
const THERE: i32 = 120;

/// `ENOENT`: the only error that makes a file appear missing to calls that merely look at it.
const ENOENT: i32 = 2;
/// `EACCES`, as an ordinary user gets it.
const EACCES: i32 = 13;

/// A file or system call that a filter denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing: the filter is set, and denies nothing. The control of every denial.
    Nothing,
    /// Every file with a matching path, as the program writes it; `*` matches a part of one name.
    File(Pattern),
    /// A system call, made by any process.
    Call(Sysno),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Nothing => f.write_str(NOTHING),
            Refused::File(pattern) => f.write_str(pattern.as_str()),
            Refused::Call(call) => f.write_str(call.name()),
        }
    }
}

/// The reason why a filter cannot deny what a text describes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRefusable {
    /// The text is not the name of a system call of this architecture.
    #[error("`{0}` is not a file path, a system call or `nothing`")]
    Unknown(String),
    /// The pattern has invalid wildcards.
    #[error("`{0}`: {1}")]
    Pattern(String, &'static str),
}

impl FromStr for Refused {
    type Err = NotRefusable;

    fn from_str(text: &str) -> Result<Refused, NotRefusable> {
        if text == NOTHING {
            return Ok(Refused::Nothing);
        }
        if text.starts_with('/') {
            let pattern = Pattern::new(text)
                .map_err(|error| NotRefusable::Pattern(text.to_string(), error.msg))?;
            return Ok(Refused::File(pattern));
        }
        Sysno::from_str(text)
            .map(Refused::Call)
            .map_err(|()| NotRefusable::Unknown(text.to_string()))
    }
}

/// A rule of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file or system call that the rule denies.
    pub refused: Refused,
    /// The error that the program gets, as a positive number.
    pub errno: i32,
}

impl Refusal {
    /// Returns `true` if a system call gets the error. `files` are the files that it accesses.
    ///
    /// A forbidden file can still be seen, so only the calls that open or run it fail. With `ENOENT` the file is
    /// missing, so every other access to it fails too.
    pub fn refuses(&self, call: Sysno, files: &[NamedFile]) -> bool {
        match &self.refused {
            Refused::Nothing => false,
            Refused::Call(refused) => *refused == call,
            Refused::File(pattern) => {
                let whole = MatchOptions {
                    require_literal_separator: true,
                    ..MatchOptions::default()
                };
                let touches = if self.errno == ENOENT {
                    !is_create_call(call)
                } else {
                    is_open_call(call)
                };
                touches
                    && files
                        .iter()
                        .any(|file| pattern.matches_with(&file.path, whole))
            }
        }
    }
}

/// The answer of a filter to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterAnswer {
    /// The system call is made.
    Pass,
    /// The system call gets this error, because a rule denies it.
    Refuse(i32),
    /// The system call gets this error, because it would change the machine.
    Protect(i32),
    /// The system call gets this error, because the file belongs to the simulated machine and exists there.
    Simulated(i32),
}

/// Returns the answer to a system call: the answer of the first rule that matches.
///
/// Nothing may change the machine while a filter denies something to a program. As root, libcuda and nvidia-modprobe
/// remove, create and change device files. The calls that would do so get `EACCES`, as they do for an ordinary user.
pub fn answer(rules: &[Refusal], call: Sysno, files: &[NamedFile]) -> FilterAnswer {
    match rules.iter().find(|rule| rule.refuses(call, files)) {
        Some(rule) => FilterAnswer::Refuse(rule.errno),
        None if changes_the_machine(call, files) => FilterAnswer::Protect(EACCES),
        None if files.iter().any(|file| file.is_simulated) => FilterAnswer::Simulated(THERE),
        None => FilterAnswer::Pass,
    }
}

/// A file that a system call names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFile {
    /// The path of the file, in the form of [`normalize_path`].
    pub path: String,
    /// `true` if the file belongs to the simulated machine.
    pub is_simulated: bool,
    /// `true` if the file exists.
    pub exists: bool,
    /// `true` if the file's directory exists.
    pub has_folder: bool,
}

/// The argument of a system call with the address of a path, or with the address of a socket's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathArgument {
    /// The number of an argument that points to a path.
    At(usize),
    /// The numbers of a descriptor of a folder, and of the path that is relative to it.
    Below(usize, usize),
    /// The numbers of a socket's address and of its length.
    Socket(usize, usize),
}

/// Returns the path arguments of a system call.
pub fn path_arguments(call: Sysno) -> &'static [PathArgument] {
    use PathArgument::{At, Below, Socket};
    match call.name() {
        "open" | "creat" | "stat" | "lstat" | "access" | "readlink" | "unlink" | "mkdir"
        | "rmdir" | "chmod" | "chown" | "lchown" | "mknod" | "truncate" | "execve" | "statfs"
        | "chdir" | "getxattr" | "lgetxattr" => &[At(0)],
        "symlink" => &[At(1)],
        "link" | "rename" => &[At(0), At(1)],
        "openat" | "openat2" | "newfstatat" | "statx" | "faccessat" | "faccessat2"
        | "readlinkat" | "unlinkat" | "mkdirat" | "mknodat" | "fchmodat" | "fchmodat2"
        | "fchownat" | "execveat" | "utimensat" => &[Below(0, 1)],
        "symlinkat" => &[Below(1, 2)],
        "renameat" | "renameat2" | "linkat" => &[Below(0, 1), Below(2, 3)],
        "connect" | "bind" => &[Socket(1, 2)],
        _ => &[],
    }
}

/// Returns `true` if a call opens or runs its file.
pub fn is_open_call(call: Sysno) -> bool {
    matches!(
        call.name(),
        "open" | "openat" | "openat2" | "creat" | "execve" | "execveat" | "connect"
    )
}

/// Returns `true` if a call creates its file.
fn is_create_call(call: Sysno) -> bool {
    let name = call.name();
    ["mkdir", "mknod", "symlink", "link", "rename", "bind"]
        .iter()
        .any(|verb| name.starts_with(verb))
}

/// Returns `true` if a call would change a device file, or the modules of the kernel. A call that fails anyway is left
/// to the kernel, because libraries distinguish its errors.
fn changes_the_machine(call: Sysno, files: &[NamedFile]) -> bool {
    let name = call.name();
    match name {
        "init_module" | "finit_module" | "delete_module" => true,
        "bind" => false,
        _ => {
            let removes = [
                "unlink", "rmdir", "chmod", "chown", "lchown", "fchmodat", "fchownat", "truncate",
            ];
            (is_create_call(call) || removes.iter().any(|verb| name.starts_with(verb)))
                && files.iter().any(|file| {
                    let can_be = if is_create_call(call) {
                        file.has_folder
                    } else {
                        file.exists
                    };
                    can_be && file.path.starts_with("/dev/") && !file.path.starts_with("/dev/shm/")
                })
        }
    }
}

/// Returns a path in the form of the tables of needs. `/proc/self` and `/task/*` replace the numbers of processes and
/// threads, which differ in every attempt, `*` replaces a PCI address, and empty and `.` parts are removed.
pub fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        match parts.as_slice() {
            _ if part == ".." => drop(parts.pop()),
            ["proc"] if is_number => parts.push("self"),
            [.., "task"] if is_number => parts.push("*"),
            _ if is_pci_address(part) => parts.push("*"),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns `true` if a name is an address such as `0000:06:00.0`.
fn is_pci_address(name: &str) -> bool {
    name.bytes()
        .map(|byte| if byte.is_ascii_hexdigit() { b'0' } else { byte })
        .eq(b"0000:00:00.0".iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(refused: &str, errno: i32) -> Refusal {
        Refusal {
            refused: refused.parse().unwrap_or_else(|error| panic!("{error}")),
            errno,
        }
    }

    fn asked(rules: &[Refusal], call: &str, path: &str) -> Option<i32> {
        match answer(rules, call.parse().expect("a system call"), &[there(path)]) {
            FilterAnswer::Pass => None,
            FilterAnswer::Refuse(errno)
            | FilterAnswer::Protect(errno)
            | FilterAnswer::Simulated(errno) => Some(errno),
        }
    }

    fn there(path: &str) -> NamedFile {
        NamedFile {
            path: path.to_string(),
            is_simulated: false,
            exists: true,
            has_folder: true,
        }
    }

    const EPERM: i32 = 1;

    #[test]
    fn a_forbidden_file_can_be_seen_and_a_missing_one_cannot() {
        let forbidden = [rule("/dev/nvidia1", EPERM)];
        assert_eq!(asked(&forbidden, "openat", "/dev/nvidia1"), Some(EPERM));
        assert_eq!(asked(&forbidden, "statx", "/dev/nvidia1"), None);
        assert_eq!(asked(&forbidden, "openat", "/dev/nvidia10"), None);
        let missing = [rule("/dev/nvidia1", ENOENT)];
        for call in ["openat", "statx", "faccessat", "readlinkat"] {
            assert_eq!(
                asked(&missing, call, "/dev/nvidia1"),
                Some(ENOENT),
                "{call}"
            );
        }
    }

    #[test]
    fn a_star_stands_for_a_part_of_one_name() {
        let rules = [rule("/proc/self/task/*/comm", EACCES)];
        assert_eq!(
            asked(&rules, "openat", &normalize_path("/proc/1234/task/77/comm")),
            Some(EACCES)
        );
        assert_eq!(asked(&rules, "openat", "/proc/self/task/7/8/comm"), None);
    }

    #[test]
    fn a_system_call_is_refused_whatever_it_names() {
        let rules = [rule("eventfd2", 38)];
        assert_eq!(
            answer(&rules, Sysno::eventfd2, &[]),
            FilterAnswer::Refuse(38)
        );
        assert_eq!(answer(&rules, Sysno::pipe2, &[]), FilterAnswer::Pass);
    }

    #[test]
    fn nothing_refuses_nothing_and_still_protects_the_machine() {
        let rules = [rule(NOTHING, 0)];
        assert_eq!(asked(&rules, "openat", "/dev/nvidia0"), None);
        for (call, path) in [
            ("unlinkat", "/dev/char/195:255"),
            ("symlinkat", "/dev/char/195:255"),
            ("mknodat", "/dev/nvidia0"),
            ("fchmodat", "/dev/nvidia0"),
            ("renameat2", "/dev/nvidia0"),
            ("finit_module", "/"),
        ] {
            assert_eq!(asked(&rules, call, path), Some(EACCES), "{call}");
        }
        for (call, path) in [
            ("unlinkat", "/tmp/x"),
            ("mkdirat", "/root/.nv"),
            ("unlinkat", "/dev/shm/x"),
            ("bind", "/dev/x"),
        ] {
            assert_eq!(asked(&rules, call, path), None, "{call} {path}");
        }
    }

    #[test]
    fn what_fails_anyway_is_left_to_the_kernel() {
        let missing = NamedFile {
            exists: false,
            has_folder: false,
            ..there("/dev/char/195:255")
        };
        for call in ["unlinkat", "symlinkat"] {
            let answered = answer(&[], call.parse().unwrap(), std::slice::from_ref(&missing));
            assert_eq!(answered, FilterAnswer::Pass, "{call}");
        }
        let in_a_folder = NamedFile {
            exists: false,
            ..there("/dev/char/195:255")
        };
        assert_eq!(
            answer(
                &[],
                "unlinkat".parse().unwrap(),
                std::slice::from_ref(&in_a_folder)
            ),
            FilterAnswer::Pass
        );
        assert_eq!(
            answer(&[], "symlinkat".parse().unwrap(), &[in_a_folder]),
            FilterAnswer::Protect(EACCES)
        );
    }

    #[test]
    fn a_file_of_the_simulated_machine_is_there_unless_it_is_refused() {
        let file = [NamedFile {
            is_simulated: true,
            exists: false,
            ..there("/dev/nvidiactl")
        }];
        assert_eq!(
            answer(&[rule(NOTHING, 0)], Sysno::openat, &file),
            FilterAnswer::Simulated(THERE)
        );
        assert_eq!(
            answer(&[rule("/dev/nvidiactl", ENOENT)], Sysno::openat, &file),
            FilterAnswer::Refuse(ENOENT)
        );
    }

    #[test]
    fn paths_do_not_tell_of_processes() {
        assert_eq!(
            normalize_path("/proc/683/task/684/comm"),
            "/proc/self/task/*/comm"
        );
        assert_eq!(normalize_path("/proc/self/./maps"), "/proc/self/maps");
        assert_eq!(
            normalize_path("/sys/bus/pci/devices/0000:1a:00.0/numa_node"),
            "/sys/bus/pci/devices/*/numa_node"
        );
        assert_eq!(normalize_path("//dev/../dev/nvidia0/"), "/dev/nvidia0");
        assert_eq!(
            normalize_path("/sys/devices/system/node/node0"),
            "/sys/devices/system/node/node0"
        );
    }

    #[test]
    fn what_cannot_be_refused_is_said() {
        assert!(
            "eventfd3"
                .parse::<Refused>()
                .unwrap_err()
                .to_string()
                .contains("not a file path")
        );
        assert!(
            "/dev/["
                .parse::<Refused>()
                .unwrap_err()
                .to_string()
                .contains("/dev/[")
        );
        for text in ["nothing", "/dev/nvidia*", "ioctl"] {
            assert_eq!(text.parse::<Refused>().unwrap().to_string(), text);
        }
    }
}
