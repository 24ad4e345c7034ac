//! The denials, and the order in which they are tested: each stage follows from the rows of those before.

use std::collections::{BTreeMap, BTreeSet};

use super::least::{Least, least};
use super::programs::{NeedsMoment, NeedsProgram, refusal_steps};
use super::{AND, BUT, EVERYTHING_ELSE, NeedRow, control, needs_of_calls};
use crate::survey::question::{Item, TRAP, scenario};
use crate::survey::row::{KindRow, LeftOut};
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::fact::{ExitCheck, FactSet};
use cuda_pitfalls_core::recording::PathUse;
use cuda_pitfalls_core::refusal::{NOTHING, is_open_call, normalize_path};
use cuda_pitfalls_core::scenario::{Case, Check};

/// Errors for a denied file: from the kernel's device rules, from its mode or a security module, as if the file did not
/// exist, and as if the process had no descriptor left.
const FILE_ERRORS: [&str; 4] = ["EPERM", "EACCES", "ENOENT", "EMFILE"];
/// Errors for denied system calls: from a filter, and from a kernel that does not have them.
const CALL_ERRORS: [&str; 2] = ["EPERM", "ENOSYS"];
/// Errors that are tried again in children.
const CHILD_ERRORS: [&str; 2] = ["EPERM", "ENOSYS"];

/// Error for a denial in addition to everything else.
const ALONE: &str = "EPERM";

/// System calls that are never denied, because no program runs without them, and the reasons.
const NOT_REFUSED: [(&[&str], &str); 3] = [
    (
        &[
            "mmap",
            "munmap",
            "mprotect",
            "mremap",
            "brk",
            "futex",
            "read",
            "write",
            "close",
            "exit",
            "exit_group",
        ],
        "Every program needs it: memory, locks, descriptors that are open, its end.",
    ),
    (
        &[
            "rt_sigreturn",
            "rt_sigaction",
            "rt_sigprocmask",
            "rseq",
            "set_robust_list",
            "set_tid_address",
            "arch_prctl",
        ],
        "The C library makes it for every thread and every signal.",
    ),
    (
        &[
            "seccomp",
            "prctl",
            "getpid",
            "wait4",
            "waitid",
            "execve",
            "vfork",
            "sigaltstack",
            "restart_syscall",
        ],
        "The harness makes it in the same process.",
    ),
];

/// Start of the key of a question that cannot be tested in a fresh process of the harness; the error follows.
const MAPS_OF_A_FRESH_PROCESS: &str = "driver spawned /proc/self/maps";
/// File that only the simulated driver reads.
const SIMULATED_ALONE: &str = "/proc/self/task/*/stat";

/// Returns the excluded items.
pub(super) fn left_out() -> Vec<LeftOut> {
    let calls = NOT_REFUSED
        .iter()
        .flat_map(|(calls, reason)| calls.iter().map(move |call| (*call, *reason)));
    let files = [
        (
            "*.so*",
            "The loader reads libraries; without one there is no program.",
        ),
        ("/etc/ld.so.*", "The loader reads it, and not CUDA."),
        (
            MAPS_OF_A_FRESH_PROCESS,
            "The harness reads it in a fresh process, to know which libraries are mapped.",
        ),
        (
            SIMULATED_ALONE,
            "The simulated driver reads it, and no real one.",
        ),
        (
            "newfstatat",
            "For frameworks only: the worker for Python lines makes this call itself.",
        ),
        (
            "/etc/ssl/*",
            "Of frameworks: certificates, for network connections that no line makes.",
        ),
        (
            "~/*",
            "A private file of the process, such as the cache of compiled kernels.",
        ),
    ];
    let named = calls.chain(files).map(|(name, reason)| LeftOut {
        name: name.to_string(),
        reason: reason.to_string(),
    });
    named.collect()
}

/// Returns the questions about `programs` that follow from these rows, on a machine with this many GPUs; empty if all
/// have run. The order is: the controls; every denial once; in children, those that changed anything; everything that
/// changed nothing together; and finally, `repeat` times, everything that changed anything.
pub fn next(
    rows: &[NeedRow],
    gpus: usize,
    repeat: u32,
    programs: &[NeedsProgram],
    is_wanted: &dyn Fn(&Item) -> bool,
) -> Vec<Item> {
    let stages: [&dyn Fn() -> Vec<Item>; 6] = [
        &|| control_items(programs, gpus, repeat),
        &|| refusal_items(rows, gpus),
        &|| in_children(rows, gpus),
        &|| joint_refusal_items(rows, gpus, repeat),
        &|| repair_items(rows, gpus),
        &|| taken_away(rows, gpus, repeat),
    ];
    let known: BTreeSet<String> = rows.iter().map(NeedRow::key).collect();
    for stage in stages {
        let mut new = stage();
        new.retain(|item| !known.contains(&item.row.key) && is_wanted(item));
        if !new.is_empty() {
            return new;
        }
    }
    rows.iter()
        .filter(|row| decides_need(row, rows, repeat))
        .map(|row| again(row, row.moment, gpus, repeat))
        .collect()
}

/// Returns `true` if a row shows that something is needed, from fewer attempts than wanted.
fn decides_need(row: &NeedRow, rows: &[NeedRow], repeat: u32) -> bool {
    row.is_alone() && row.standing.attempts == 1 && repeat > 1 && changes_something(row, rows)
}

fn changes_something(row: &NeedRow, rows: &[NeedRow]) -> bool {
    row.control(rows)
        .is_some_and(|control| row.differs_from(control))
}

/// Returns the question of a row at a moment.
fn again(row: &NeedRow, moment: NeedsMoment, gpus: usize, repeat: u32) -> Item {
    need_item(
        row.program,
        moment,
        gpus,
        row.refused.as_deref(),
        row.error.as_deref(),
        repeat,
    )
}

fn control_items(programs: &[NeedsProgram], gpus: usize, repeat: u32) -> Vec<Item> {
    let mut items = Vec::new();
    for program in programs.iter().copied() {
        for moment in program.refusal_moments() {
            items.extend(
                [None, Some(NOTHING)]
                    .map(|refused| need_item(program, *moment, gpus, refused, None, repeat)),
            );
        }
    }
    items
}

/// Directories that never contain files of a framework.
const OF_THE_SYSTEM: [&str; 6] = ["/dev/", "/proc/", "/sys/", "/run/", "/var/", "/etc/"];

/// Directory of certificates. Certificates are for network connections, which no line makes, and a machine may have its
/// own.
const CERTIFICATES: &str = "/etc/ssl/";

/// Returns `true` if a file belongs to the system, not to a framework or its interpreter.
pub(super) fn is_of_the_system(path: &str) -> bool {
    OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(CERTIFICATES)
}

/// Returns questions about everything that a framework uses and the driver's program does not, denied with one error.
fn framework_items(rows: &[NeedRow], program: NeedsProgram, gpus: usize) -> Vec<Item> {
    let controls =
        [program, NeedsProgram::Driver].map(|program| control(rows, program, NeedsMoment::Init));
    let [Some(own), Some(driver)] = controls else {
        return Vec::new();
    };
    let (files, calls) = needs_of_calls(&own.asked, |during| {
        program.is_after(NeedsMoment::Init, gpus, during)
    });
    let (known_files, known_calls) = needs_of_calls(&driver.asked, |_| true);
    let mut targets: BTreeSet<String> = BTreeSet::new();
    for (path, used) in files {
        let is_new = !known_files.contains_key(path) && used.exists && is_opened(&used);
        if is_new && may_be_refused(path) && is_of_the_system(path) {
            targets.insert(without_numbers(path));
        }
    }
    let mut targets = Vec::from_iter(targets);
    for call in calls.difference(&known_calls) {
        if !is_spared(call) && !OF_THE_WORKER.contains(call) {
            targets.push((*call).to_owned());
        }
    }
    let mut items = Vec::new();
    for what in &targets {
        let moment = NeedsMoment::Init;
        items.push(need_item(program, moment, gpus, Some(what), Some(ALONE), 1));
    }
    items
}

fn is_opened(used: &PathUse) -> bool {
    let mut calls = used.calls.iter();
    calls.any(|call| call.parse().is_ok_and(is_open_call))
}

/// Returns a path in /sys with `*` for each number, so that the files of all processors are denied at once; other paths
/// are unchanged.
fn without_numbers(path: &str) -> String {
    if !path.starts_with("/sys/") {
        return path.to_string();
    }
    let mut out = String::new();
    for c in path.chars() {
        match c {
            '0'..='9' if out.ends_with('*') => {}
            '0'..='9' => out.push('*'),
            _ => out.push(c),
        }
    }
    out
}

/// System calls that the worker for Python lines makes itself between two lines.
const OF_THE_WORKER: [&str; 2] = ["newfstatat", "fstat"];

/// Returns `true` if a system call is never denied.
fn is_spared(call: &str) -> bool {
    NOT_REFUSED.iter().any(|(names, _)| names.contains(&call))
}

/// Returns the denials of everything that a program used after each moment.
fn refusal_items(rows: &[NeedRow], gpus: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for program in NeedsProgram::ALL {
        if program.is_framework() {
            items.extend(framework_items(rows, program, gpus));
            continue;
        }
        let Some(record) = control(rows, program, NeedsMoment::Init) else {
            continue;
        };
        for moment in program.refusal_moments() {
            if matches!(moment, NeedsMoment::Forked | NeedsMoment::Spawned) {
                continue;
            }
            let (files, calls) = needs_of_calls(&record.asked, |during| {
                program.is_after(*moment, gpus, during)
            });
            let mut add_item = |what: &str, error: &str| {
                items.push(need_item(
                    program,
                    *moment,
                    gpus,
                    Some(what),
                    Some(error),
                    1,
                ));
            };
            for (path, used) in &files {
                for error in FILE_ERRORS {
                    // A file that does not exist cannot be missing, and a file that is only inspected cannot be denied.
                    let is_possible = match error {
                        "ENOENT" => used.exists,
                        _ => is_opened(used),
                    };
                    if is_possible && may_be_refused(path) {
                        add_item(path, error);
                    }
                }
            }
            for call in calls {
                if !is_spared(call) {
                    CALL_ERRORS.iter().for_each(|error| add_item(call, error));
                }
            }
        }
    }
    items
}

/// Returns the joint denials of everything that changed nothing.
fn joint_refusal_items(rows: &[NeedRow], gpus: usize, repeat: u32) -> Vec<Item> {
    let mut items = Vec::new();
    for program in NeedsProgram::ALL {
        let refusable = least(rows, program).refusable;
        if !refusable.is_empty() {
            let item = at_once(program, gpus, EVERYTHING_ELSE, &refusable, None, repeat);
            items.push(item);
        }
    }
    items
}

/// Returns the questions that allow one thing each, for programs where denying all at once is too much.
fn repair_items(rows: &[NeedRow], gpus: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for program in NeedsProgram::ALL {
        let Least {
            refusable,
            suffices: Some(false),
            ..
        } = least(rows, program)
        else {
            continue;
        };
        for allowed in refusable.keys() {
            let mut rest = refusable.clone();
            rest.remove(allowed);
            let name = format!("{EVERYTHING_ELSE}{BUT}{allowed}");
            items.push(at_once(program, gpus, &name, &rest, None, 1));
        }
    }
    items
}

/// Returns the denials of each thing that changed something, together with everything that is not needed.
fn taken_away(rows: &[NeedRow], gpus: usize, repeat: u32) -> Vec<Item> {
    let mut items = Vec::new();
    for program in NeedsProgram::ALL {
        let least = least(rows, program);
        if least.is_enough() != Some(true) {
            continue;
        }
        let (rest, allowed) = least.at_once();
        let allowed = allowed
            .map(|allowed| format!("{BUT}{allowed}"))
            .unwrap_or_default();
        for needed in &least.needed {
            let name = format!("{EVERYTHING_ELSE}{allowed}{AND}{needed}");
            items.push(at_once(program, gpus, &name, &rest, Some(needed), repeat));
        }
    }
    items
}

/// Returns the question about several things that are denied at once.
fn at_once(
    program: NeedsProgram,
    gpus: usize,
    name: &str,
    refused: &BTreeMap<String, String>,
    and: Option<&str>,
    repeat: u32,
) -> Item {
    let refused = refused
        .iter()
        .map(|(target, error)| (target.as_str(), Some(error.as_str())));
    let refuses = refusal_steps(refused.chain(and.map(|and| (and, Some(ALONE)))));
    question(
        NeedRow::new(program, NeedsMoment::Init, Some(name), Some(ALONE)),
        gpus,
        refuses,
        repeat,
    )
}

fn may_be_refused(path: &str) -> bool {
    let is_library = path.contains(".so.") || path.ends_with(".so");
    path == normalize_path(path)
        && path != SIMULATED_ALONE
        && !is_library
        && !path.starts_with("/etc/ld.so.")
}

/// Returns the denials that changed anything in the driver, for children.
fn in_children(rows: &[NeedRow], gpus: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for row in rows {
        let error = row.error.as_deref().unwrap_or_default();
        let is_start = (row.program, row.moment) == (NeedsProgram::Driver, NeedsMoment::Init);
        if is_start
            && row.is_alone()
            && CHILD_ERRORS.contains(&error)
            && changes_something(row, rows)
        {
            for moment in [NeedsMoment::Forked, NeedsMoment::Spawned] {
                items.push(again(row, moment, gpus, 1));
            }
        }
    }
    items.retain(|item| !item.row.key.starts_with(MAPS_OF_A_FRESH_PROCESS));
    items
}

fn need_item(
    program: NeedsProgram,
    moment: NeedsMoment,
    gpus: usize,
    refused: Option<&str>,
    error: Option<&str>,
    repeat: u32,
) -> Item {
    let refuses = refusal_steps(refused.map(|refused| (refused, error)));
    question(
        NeedRow::new(program, moment, refused, error),
        gpus,
        refuses,
        repeat,
    )
}

/// Returns the question that consists of these denials.
fn question(row: NeedRow, gpus: usize, refuses: Vec<Step>, repeat: u32) -> Item {
    let program = row.program;
    // A probe is a driver call too, and would be recorded as part of the step.
    let case = Case {
        name: TRAP.to_string(),
        does: "the calls, with something refused".to_string(),
        env: program.environment(),
        python: program.python(),
        steps: program.steps(row.moment, gpus, refuses),
        probes: false,
        ..Case::default()
    };
    // A crash or a hang is also an answer.
    let mut ends = Vec::new();
    for signal in ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGSYS"] {
        ends.push(ExitCheck::Signal(signal.to_owned()));
    }
    ends.extend([ExitCheck::Code(0), ExitCheck::Deadline]);
    let facts = FactSet {
        exit: Some(ExitCheck::OneOf(ends)),
        ..FactSet::default()
    };
    let effect = vec![Check {
        facts,
        ..Check::default()
    }];
    let (name, question) = (
        "survey-needs/refused".to_string(),
        "What does this refusal cause?".to_string(),
    );
    let mut scenario = scenario(name, question, None, effect, vec![case]);
    if program.is_framework() {
        // An import takes seconds, and more under a filter.
        scenario.step_timeout_ms = defaults::STEP_TIMEOUT_S * 1000;
    }
    let kind = match row.refused.as_deref() {
        Some(NOTHING) | None => "control",
        Some(refused) if refused.starts_with('/') => "file",
        Some(_) if row.is_alone() => "call",
        Some(_) => "together",
    };
    let mut sets = vec![program.name(), row.moment.name()];
    sets.extend(row.error.clone());
    sets.extend(row.refused.clone());
    sets.push(kind.to_owned());
    Item {
        sets,
        repeat: Some(repeat),
        ..Item::new(row, scenario, NeedRow::with)
    }
}
