//! The overhead of the harness: one attempt of `memory/context-cost` (its trap) against a bare C program
//! that makes the same calls, in pairs, on the GPUs of this machine.
//!
//! `cargo bench --bench overhead` builds the bare program with `cc` and needs a GPU; without one it
//! prints a note and measures only the other commands. To measure on a machine without cargo,
//! carry three files there (this program, `cuda-pitfalls` and the bare program) and run
//! `overhead PROGRAM BARE`. Numbers are ratios within one run: machines are noisy, pairs less so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cuda_pitfalls::experiment::Timeouts;
use cuda_pitfalls::plan::CasePlan;
use cuda_pitfalls::recording::Recording;
use cuda_pitfalls::supervisor::{Interrupt, Supervisor};
use cuda_pitfalls::{catalogue, clock, libraries};

/// Pairs at each setting, unless `--pairs N` says otherwise.
const PAIRS: usize = 30;
/// Rests of the sampler to compare; the first is the one in use. `--quick` compares the first and the last.
const RESTS_US: [u64; 6] = [
    cuda_pitfalls::sample::REST_US,
    0,
    200,
    1_000,
    5_000,
    1_000_000,
];
const COMMANDS: usize = 40;
const TIMEOUTS: Timeouts = Timeouts {
    step_ms: 30_000,
    attempt_ms: 60_000,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os()
        .skip(1)
        .map(PathBuf::from)
        .filter(|path| path.is_file())
        .collect();
    let words: Vec<String> = std::env::args().collect();
    let quick = words.iter().any(|word| word == "--quick");
    let after = |flag: &str| {
        words
            .iter()
            .position(|word| word == flag)
            .and_then(|place| words.get(place + 1))
    };
    let pairs = after("--pairs")
        .and_then(|text| text.parse().ok())
        .unwrap_or(PAIRS);
    let rests = if quick {
        vec![RESTS_US[0], RESTS_US[RESTS_US.len() - 1]]
    } else {
        RESTS_US.to_vec()
    };
    let folder = tempfile::tempdir()?;
    let program = arguments
        .first()
        .cloned()
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_cuda-pitfalls").into());
    let mut document = BTreeMap::new();
    for command in ["--help", "list"] {
        let times: Vec<u64> = (0..COMMANDS)
            .map(|_| wall(Command::new(&program).arg(command)))
            .collect();
        document.insert(format!("{command} wall_ns"), spread(&times));
    }
    let bare = match arguments.get(1) {
        Some(bare) => bare.clone(),
        None => build_bare(folder.path())?,
    };
    match against_bare(&program, &bare, folder.path(), pairs, &rests) {
        Ok(measured) => document.extend(measured),
        Err(why) => eprintln!("no attempt was measured: {why}"),
    }
    println!("{}", serde_json::to_string_pretty(&document)?);
    Ok(())
}

/// Measures pairs of one attempt and one bare run, in alternating order.
fn against_bare(
    program: &Path,
    bare: &Path,
    folder: &Path,
    count: usize,
    rests: &[u64],
) -> Result<BTreeMap<String, serde_json::Value>, Box<dyn std::error::Error>> {
    let home = folder.join("home");
    std::fs::create_dir(&home)?;
    let found = libraries::find(program, &home, &[], None)?;
    let links = libraries::link_libraries(&folder.join("links"), &found, None)?;
    let mut supervisor = Supervisor::start(program, &links, &home, Interrupt::none())?;
    let inventory = supervisor
        .sampler
        .inventory
        .clone()
        .map_err(|why| format!("{}: {}", why.reason, why.detail))?;
    let uuid = inventory.gpus.first().ok_or("no GPU")?.uuid.clone();
    let case = plan(&uuid)?;
    let mut document = BTreeMap::from([
        ("gpus".to_string(), serde_json::json!(inventory.gpus.len())),
        (
            "driver".to_string(),
            serde_json::json!(inventory.driver_version),
        ),
    ]);
    for &rest_us in rests {
        supervisor.sampler.rest_us = rest_us;
        let measured = pairs(&mut supervisor, &case, count, || {
            run_bare(Command::new(bare).env("CUDA_VISIBLE_DEVICES", &uuid))
        })?;
        document.insert(format!("sampler resting {rest_us} us"), measured);
    }
    // The cost for a program without a mask: `cuInit` looks at every GPU.
    supervisor.sampler.rest_us = RESTS_US[0];
    let unmasked = CasePlan { mask: None, ..case };
    let measured = pairs(&mut supervisor, &unmasked, count, || {
        run_bare(Command::new(bare).env_remove("CUDA_VISIBLE_DEVICES"))
    })?;
    document.insert("without a mask".to_string(), measured);
    Ok(document)
}

/// Measures pairs at one setting of the sampler.
fn pairs(
    supervisor: &mut Supervisor,
    case: &CasePlan,
    count: usize,
    run_bare: impl Fn() -> Bare,
) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let (mut bare_ns, mut attempt_ns, mut outside_ns, mut whole_ns, mut ratios) =
        (vec![], vec![], vec![], vec![], vec![]);
    let (mut rates, mut gaps, mut snapshots) = (vec![], vec![], vec![]);
    let (mut bare_phases, mut phases): ([Vec<u64>; 6], [Vec<u64>; 6]) = Default::default();
    for pair in 0..count {
        let before = (pair % 2 == 0).then(&run_bare);
        let started = clock::now_ns();
        let attempt = supervisor.record_attempt(&case.experiment(TIMEOUTS))?;
        whole_ns.push(clock::now_ns() - started);
        let bare = before.unwrap_or_else(&run_bare);
        check(&attempt)?;
        ratios.push(attempt.wall_ns as f64 / bare.wall_ns as f64);
        bare_ns.push(bare.wall_ns);
        bare_phases
            .iter_mut()
            .zip(bare.phases)
            .for_each(|(all, ns)| all.push(ns));
        phases
            .iter_mut()
            .zip(attempt_phases(&attempt))
            .for_each(|(all, ns)| all.push(ns));
        attempt_ns.push(attempt.wall_ns);
        outside_ns.push(between_steps(&attempt));
        if let Some(run) = &attempt.polling {
            rates.push((run.reads as f64 / (run.elapsed_ns as f64 / 1e9)) as u64);
            gaps.push(run.longest_gap_ns);
        }
        snapshots.extend(
            attempt
                .snapshots
                .iter()
                .map(|snapshot| snapshot.snapshot.elapsed_ns),
        );
    }
    ratios.sort_by(f64::total_cmp);
    let profile: BTreeMap<&str, serde_json::Value> = PHASES
        .into_iter()
        .zip(phases.iter().zip(&bare_phases))
        .map(|(name, (attempt, bare))| {
            (
                name,
                serde_json::json!({ "attempt": spread(attempt), "bare": spread(bare) }),
            )
        })
        .collect();
    Ok(serde_json::json!({
        "phases, ns": profile,
        "attempt wall / bare wall": {
            "median": ratios[ratios.len() / 2], "min": ratios[0], "max": ratios[ratios.len() - 1], "pairs": count,
        },
        "attempt wall_ns": spread(&attempt_ns),
        "attempt with readings before and after, wall_ns": spread(&whole_ns),
        "bare wall_ns": spread(&bare_ns),
        "between the worker's steps, ns per attempt": spread(&outside_ns),
        "free-running reads of every GPU, per second": spread(&rates),
        "longest gap of the free run, ns": spread(&gaps),
        "one reading of everything, ns": spread(&snapshots),
    }))
}

/// Returns the trap of `memory/context-cost`, masked to one GPU.
fn plan(uuid: &str) -> Result<CasePlan, Box<dyn std::error::Error>> {
    let scenario = catalogue::select_scenarios(&["memory/context-cost".to_string()])
        .map_err(|error| error.to_string())?;
    let instance = scenario
        .first()
        .and_then(|scenario| scenario.instances.first())
        .ok_or("no scenario")?;
    let trap = instance
        .cases
        .iter()
        .find(|case| case.name == "trap")
        .ok_or("no trap")?;
    Ok(CasePlan {
        name: trap.name.clone(),
        mask: Some(vec![uuid.to_string()]),
        probes: true,
        steps: trap.steps.clone(),
        ..CasePlan::default()
    })
}

/// Fails if a call failed, because a benchmark of failing calls would be worthless.
fn check(attempt: &Recording) -> Result<(), String> {
    let failed = attempt.events.iter().any(|said| match &said.event {
        cuda_pitfalls::event::Event::End {
            status: Some(status),
            ..
        } => status.code != 0,
        _ => false,
    });
    if failed || !attempt.exit.said_bye || !attempt.incidents.is_empty() {
        Err(format!("{attempt:?}"))
    } else {
        Ok(())
    }
}

/// A program that only makes the calls, phase by phase.
struct Bare {
    wall_ns: u64,
    phases: [u64; 6],
}

/// Phases into which the run time of a worker and of the bare program is divided.
const PHASES: [&str; 6] = [
    "1 until the first call",
    "2 cuInit",
    "3 retain",
    "4 release",
    "5 between calls",
    "6 exit",
];

fn run_bare(command: &mut Command) -> Bare {
    let started = clock::now_ns();
    let output = command.stderr(Stdio::inherit()).output();
    let ended = clock::now_ns();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stamps: Vec<u64> = text
        .split_whitespace()
        .filter_map(|stamp| stamp.parse().ok())
        .collect();
    let &[_, opened, initialised, retained, released] = stamps.as_slice() else {
        panic!("{command:?} printed {text:?}");
    };
    let phases = [
        opened - started,
        initialised - opened,
        retained - initialised,
        released - retained,
        0,
        ended - released,
    ];
    Bare {
        wall_ns: ended - started,
        phases,
    }
}

/// Returns the same phases of an attempt.
fn attempt_phases(attempt: &Recording) -> [u64; 6] {
    use cuda_pitfalls::event::Event;
    let first = attempt.events.iter().find_map(|said| match said.event {
        Event::Begin { t_ns, .. } => Some(t_ns),
        _ => None,
    });
    let ends: Vec<(u64, u64)> = attempt
        .events
        .iter()
        .filter_map(|said| match said.event {
            Event::End {
                t_ns, elapsed_ns, ..
            } => Some((t_ns, elapsed_ns)),
            _ => None,
        })
        .collect();
    let call = |place: usize| ends.get(place).map_or(0, |(_, elapsed)| *elapsed);
    let until_first = first.map_or(0, |first| first - attempt.started_ns);
    let exit = ends
        .last()
        .map_or(0, |(last, _)| attempt.started_ns + attempt.wall_ns - last);
    let named = until_first + ends.iter().map(|(_, elapsed)| elapsed).sum::<u64>() + exit;
    [
        until_first,
        call(0),
        call(1),
        call(2),
        attempt.wall_ns.saturating_sub(named),
        exit,
    ]
}

/// Returns the time between the end of a step and the beginning of the next: rendezvous and readings.
fn between_steps(attempt: &Recording) -> u64 {
    use cuda_pitfalls::event::Event;
    let mut ended = None;
    let mut sum = 0;
    for said in &attempt.events {
        match said.event {
            Event::End { t_ns, .. } => ended = Some(t_ns),
            Event::Begin { t_ns, .. } => sum += ended.map_or(0, |ended| t_ns - ended),
            _ => {}
        }
    }
    sum
}

fn wall(command: &mut Command) -> u64 {
    let started = clock::now_ns();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{command:?} failed"
    );
    clock::now_ns() - started
}

fn build_bare(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let bare = folder.join("bare");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/benches/bare.c");
    let status = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&bare)
        .arg(source)
        .arg("-ldl")
        .status()?;
    if status.success() {
        Ok(bare)
    } else {
        Err("cc failed".into())
    }
}

fn spread(values: &[u64]) -> serde_json::Value {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    match (sorted.first(), sorted.last()) {
        (Some(min), Some(max)) => {
            serde_json::json!({ "median": sorted[sorted.len() / 2], "min": min, "max": max })
        }
        _ => serde_json::Value::Null,
    }
}
