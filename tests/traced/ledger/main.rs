//! `trace --memory` on the simulated machine: the memory that NVML reports for a process is attributed, whatever
//! happens to the process, and whatever it reports.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use cuda_pitfalls::trace::{LedgerReading, LedgerReason, MemoryKind, Trace};

use super::common::Ran;
use super::common::traced::{Node, lines_of};
use super::{script, text, trace};

const MIB: u64 = 1 << 20;

/// Returns the bytes of each holder after each reading of a process and GPU, with the reading.
fn ledgers(trace: &Trace) -> Vec<(&LedgerReading, BTreeMap<u32, u64>)> {
    let mut held: BTreeMap<(u32, &str), BTreeMap<u32, u64>> = BTreeMap::new();
    let mut all = Vec::new();
    for reading in &trace.ledger {
        let now = held.entry((reading.pid, &reading.gpu)).or_default();
        now.extend(reading.held.iter().map(|held| (held.holder, held.bytes)));
        now.retain(|_, bytes| *bytes > 0);
        all.push((reading, now.clone()));
    }
    all
}

/// Returns the held memory, by kind and line of the program.
fn by_line(trace: &Trace, held: &BTreeMap<u32, u64>) -> BTreeMap<(MemoryKind, Option<u32>), u64> {
    let mut all = BTreeMap::new();
    for (number, bytes) in held {
        let holder = trace
            .holders
            .iter()
            .find(|holder| holder.holder == *number)
            .expect("a holder is written first");
        let line = holder.stack.user_frame().and_then(|frame| frame.line);
        *all.entry((holder.kind, line)).or_default() += bytes;
    }
    all
}

/// Traces `holds.py`, which frees memory at once.
fn holds(way: &str) -> (Ran, Trace) {
    trace(&["--memory"], &["python3", &script("ledger/holds.py"), way])
}

#[test]
fn all_memory_is_attributed_at_peak_and_end() {
    let (ran, trace) = holds("");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(trace.start.ledger);
    let lines = lines_of(Path::new("ledger/holds.py"));
    let [context, large, small] = ["context", "large", "small"].map(|label| Some(lines[label]));
    let all = ledgers(&trace);
    let of = |why| {
        all.iter()
            .rev()
            .find(|(reading, _)| reading.why == why)
            .expect("a reading")
    };
    let (peak, held) = of(LedgerReason::Peak);
    let by_peak = by_line(&trace, held);
    assert_eq!(by_peak[&(MemoryKind::Allocation, large)], 64 * MIB);
    assert_eq!(by_peak[&(MemoryKind::Allocation, small)], MIB);
    assert!(
        by_peak[&(MemoryKind::Context, context)] > 100 * MIB,
        "{by_peak:?}"
    );
    assert_eq!(by_peak[&(MemoryKind::Rounding, None)], MIB);
    assert_eq!(
        Some(held.values().sum::<u64>()),
        peak.own_bytes,
        "{by_peak:?}"
    );
    let (end, held) = of(LedgerReason::End);
    let by_end = by_line(&trace, held);
    assert!(
        !by_end.contains_key(&(MemoryKind::Allocation, large)),
        "{by_end:?}"
    );
    assert_eq!(by_end[&(MemoryKind::Allocation, small)], MIB);
    assert_eq!(
        Some(held.values().sum::<u64>()),
        end.own_bytes,
        "{by_end:?}"
    );
    let gpus: Vec<&str> = trace
        .ledger
        .iter()
        .map(|reading| reading.gpu.as_str())
        .collect();
    assert!(
        gpus.iter().all(|gpu| *gpu == trace.start.gpus[0].uuid),
        "the other GPU is not used: {gpus:?}"
    );
}

#[test]
fn concurrent_calls_on_gpus_sum_to_nvml_memory() {
    let (ran, trace) = trace(&["--memory"], &["python3", &script("ledger/at_once.py")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = lines_of(Path::new("ledger/at_once.py"));
    let all = ledgers(&trace);
    for gpu in &trace.start.gpus[..2] {
        let (end, held) = all
            .iter()
            .rev()
            .find(|(reading, _)| reading.gpu == gpu.uuid)
            .expect("a reading");
        let by_line = by_line(&trace, held);
        assert_eq!(end.own_bytes, Some(held.values().sum()), "{by_line:?}");
        let loaded = by_line.get(&(MemoryKind::Code, Some(lines["launch"])));
        assert!(
            loaded.is_some_and(|bytes| *bytes >= 32 * MIB),
            "{by_line:?}"
        );
    }
    let second = trace.holders.iter().find(|holder| {
        holder.stack.user_frame().and_then(|frame| frame.line) == Some(lines["second"])
    });
    assert!(
        !second.expect("a context").is_disturbed,
        "nothing else was under way"
    );
}

/// Returns the last readings of a program that ends after this many steps of `takes.py`.
fn takes(way: &str, steps: usize) -> (String, Trace) {
    let (ran, trace) = trace(
        &["--memory"],
        &[
            "python3",
            &script("ledger/takes.py"),
            way,
            &steps.to_string(),
        ],
    );
    assert_eq!(ran.code, Some(0), "{way} {steps}: {ran:?}");
    (ran.stdout, trace)
}

#[test]
fn each_step_sums_to_nvml_memory() {
    for way in ["blocks", "mappings", "contexts", "pools"] {
        for steps in 1.. {
            let (printed, trace) = takes(way, steps);
            let all = ledgers(&trace);
            let (end, held) = all.last().expect("a reading");
            assert_eq!(end.why, LedgerReason::End, "{way} {steps}");
            let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
            for ((kind, _), bytes) in by_line(&trace, held) {
                *kinds.entry(format!("{kind:?}").to_lowercase()).or_default() += bytes;
            }
            let said: Vec<&str> = printed.split_whitespace().collect();
            let [kind, bytes, place] = said.as_slice() else {
                panic!("{printed}")
            };
            let found = kinds.get(*kind).copied().unwrap_or_default();
            assert_eq!(found.to_string(), *bytes, "{way} {steps}: {kinds:?}");
            // The simulated driver does not report what a pool has reserved.
            if way != "pools" {
                assert_eq!(
                    Some(kinds.values().sum()),
                    end.own_bytes,
                    "{way} {steps}: {kinds:?}"
                );
            }
            if *place == "last" {
                break;
            }
        }
    }
}

/// The ways of `disturbed.c`, and how it ends and what it prints.
const DISTURBED: [(&str, i32, &str); 6] = [
    ("threads", 0, "failed 0\n"),
    ("forks", 0, "failed 0\n"),
    ("handler", 0, "failed 0\n"),
    ("exit", 7, ""),
    ("unloads", 9, ""),
    ("limit", 0, "failed 0\n"),
];

#[test]
fn a_program_that_is_disturbed_while_it_allocates_ends_as_it_would() {
    let node = Node::new("h200-x2");
    let program = node.program("ledger/disturbed.c");
    for (way, code, says) in DISTURBED {
        let mut alone = node.command(&program);
        alone.arg(way);
        for ran in [
            node.run(alone),
            trace(&["--memory"], &[&text(program.clone()), way]).0,
        ] {
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (Some(code), says),
                "{way}: {ran:?}"
            );
        }
    }
}

#[test]
fn a_page_that_the_program_has_written_on_harms_nobody() {
    let node = Node::new("h200-x2");
    let (ran, trace) = trace(
        &["--memory"],
        &[&text(node.program("ledger/disturbed.c")), "scribbles"],
    );
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "failed 0\n"),
        "{ran:?}"
    );
    assert!(trace.end.is_some() && !trace.ledger.is_empty());
}

#[test]
fn the_end_of_a_process_is_its_last_reading_however_it_ends() {
    for (way, code) in [("killed", None), ("exec", Some(0)), ("fork", Some(0))] {
        let (ran, trace) = holds(way);
        assert_eq!(ran.code, code, "{way}: {ran:?}");
        let all = ledgers(&trace);
        let ends: Vec<_> = all
            .iter()
            .filter(|(reading, _)| reading.why == LedgerReason::End)
            .collect();
        let [(end, held)] = ends.as_slice() else {
            panic!("{way}: {ends:?}")
        };
        assert_eq!(Some(held.values().sum::<u64>()), end.own_bytes, "{way}");
        assert!(
            end.t_ns <= trace.end.as_ref().expect("a whole trace").t_ns,
            "{way}"
        );
        assert!(
            all.iter().all(|(reading, _)| reading.pid == end.pid),
            "{way}: of a child nothing is charged"
        );
    }
}

#[test]
fn a_program_that_lies_about_its_memory_spoils_only_its_own_ledger() {
    for way in ["page", "gone"] {
        let (ran, trace) = trace(&["--memory"], &["python3", &script("ledger/lies.py"), way]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "told\n"),
            "{way}: {ran:?}"
        );
        assert!(trace.end.is_some(), "{way}");
        for (reading, held) in ledgers(&trace) {
            assert!(
                held.values().all(|bytes| *bytes < 1 << 63),
                "{way}: {reading:?}"
            );
            by_line(&trace, &held);
        }
        assert!(trace.ledger.len() < 1000, "{way}: {}", trace.ledger.len());
    }
}

#[test]
fn process_without_memory_records_has_no_ledger() {
    let node = Node::new("h200-x2");
    let libcuda = text(node.links.join("libcuda.so.1"));
    for (program, is_said) in [("no_cuda.py", false), ("absolute_path.py", true)] {
        let (_, trace) = trace(&["--memory"], &["python3", &script(program), &libcuda]);
        assert!(
            trace.holders.is_empty() && trace.ledger.is_empty(),
            "{program}: {:?}",
            trace.ledger
        );
        let not_seen = &trace.end.as_ref().expect("a whole trace").not_seen;
        let is_unseen = not_seen
            .iter()
            .any(|why| why.contains("its contexts and calls are not seen"));
        assert_eq!(is_unseen, is_said, "{program}: {not_seen:?}");
    }
    let (_, trace) = trace(&[], &["python3", &script("killed.py")]);
    assert!(
        trace.holders.is_empty() && trace.ledger.is_empty(),
        "without --memory"
    );
}

/// The process is in a PID namespace, as in a container, so NVML lists it by a different PID.
#[test]
fn where_nvml_knows_other_pids_the_gpu_stands_for_the_process() {
    let apart = ["unshare", "--pid", "--fork"];
    let is_allowed = Command::new(apart[0])
        .args(&apart[1..])
        .arg("true")
        .output();
    if !is_allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("NOT TESTED: only root can give a process PIDs of its own");
        return;
    }
    let program = ["python3", &script("ledger/holds.py")];
    let (ran, trace) = trace(&["--memory"], &[&apart[..], &program].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let all = ledgers(&trace);
    assert!(
        all.iter()
            .any(|(reading, _)| reading.why == LedgerReason::End),
        "{all:?}"
    );
    for (reading, held) in all {
        assert_eq!(
            (reading.own_bytes, &reading.gpu),
            (None, &trace.start.gpus[0].uuid)
        );
        let started = trace.start.used_bytes[0].expect("a figure of the start");
        let risen = reading.used_bytes.expect("a figure") - started;
        let held: u64 = held.values().sum();
        // The memory of cuInit is not attributed to any owner, because the call does not refer to a
        // particular GPU.
        assert!(
            (held..held + 8 * MIB).contains(&risen),
            "{held} of {risen}: {reading:?}"
        );
    }
}

#[test]
fn two_hundred_processes_have_a_ledger_each_at_most() {
    let (ran, trace) = trace(&["--memory"], &["python3", &script("many_children.py")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ends = trace
        .ledger
        .iter()
        .filter(|reading| reading.why == LedgerReason::End);
    let mut ended: Vec<(u32, &str)> = ends
        .map(|reading| (reading.pid, reading.gpu.as_str()))
        .collect();
    let count = ended.len();
    ended.sort_unstable();
    ended.dedup();
    assert_eq!(ended.len(), count, "a process ends once");
    for (reading, held) in ledgers(&trace) {
        by_line(&trace, &held);
        assert!(held.values().sum::<u64>() < 1 << 40, "{reading:?}");
    }
}

#[test]
fn what_is_held_is_shown_and_limited_by_whose_it_is() {
    let program = ["python3", &script("ledger/holds.py")];
    let kept = [
        "--memory",
        "--forbid",
        "owner=nccl>1MiB,unattributed>1MiB,owner=program>1GiB",
    ];
    let (ran, _) = trace(&kept, &program);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = lines_of(Path::new("ledger/holds.py"))["large"];
    for shown in [
        "Memory by owner",
        "64 MiB   allocations             the program itself ",
        &format!("holds.py:{line}\n"),
    ] {
        assert!(ran.stderr.contains(shown), "{shown}: {}", ran.stderr);
    }
    let (ran, _) = trace(&["--memory", "--forbid", "owner=program>64MiB"], &program);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    ran.join_lines()
        .says("MiB are held by the program itself, of ");
    let (ran, _) = trace(&["--forbid", "unattributed>1GiB"], &program);
    assert_eq!(ran.code, Some(3), "without --memory: {ran:?}");
}
