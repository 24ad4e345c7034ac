//! Signals to workers and samplers, at random moments, the calibration's among them.

use std::time::{Duration, Instant};

use cuda_pitfalls::report::Report;
use cuda_pitfalls::verdict::ExpectationMet;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::fleets::Random;
use crate::common::{Running, Scratch};

/// Two GPUs, and questions about contexts, masks, memory and processes.
const MACHINE: &str = "sim:h200-x2";
const QUESTIONS: [&str; 6] = [
    "memory/context-cost",
    "visibility/mask-after-device-count",
    "instrument/probes-change-nothing",
    "context/failed-call-makes-one",
    "process/exec-gives-a-fresh-driver",
    "device/new-thread-is-device-0",
];
const SIGNALS: [Signal; 3] = [Signal::KILL, Signal::SEGV, Signal::TERM];
/// A run that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(600);

/// What a sweep came to.
#[derive(Default)]
struct Tally {
    kills: u32,
    runs: u32,
    wrong: Vec<String>,
}

/// Kills until so many have been made. The seed tells the moments and is printed with a failure.
fn sweep(kills: u32, seed: u64) {
    let mut random = Random(seed);
    let mut tally = Tally::default();
    while tally.kills < kills && tally.wrong.len() < 10 {
        run(&mut random, &mut tally, kills);
    }
    println!("{} kills in {} runs", tally.kills, tally.runs);
    assert!(
        tally.wrong.is_empty(),
        "seed {seed}, {} kills in {} runs:\n{}",
        tally.kills,
        tally.runs,
        tally.wrong.join("\n")
    );
}

/// One run, and up to four kills in it.
fn run(random: &mut Random, tally: &mut Tally, most: u32) {
    let scratch = Scratch::new();
    let running = scratch.start(scratch.simulating(MACHINE, &QUESTIONS, &["--quick"]));
    // Half of the runs are hit in their first second, which is calibration.
    let spread_ms = if random.below(2) == 0 { 250 } else { 1_500 };
    let mut killed = Vec::new();
    for _ in 0..(1 + random.below(4)).min((most - tally.kills) as usize) {
        std::thread::sleep(Duration::from_millis(random.below(spread_ms) as u64));
        let Some(victim) = victim(&scratch, &running, random) else { break };
        let signal = SIGNALS[random.below(3)];
        if kill_process(Pid::from_raw(victim.0).expect("a PID is not 0"), signal).is_ok() {
            killed.push(format!("{signal:?} to {}", victim.1.split_whitespace().nth(1).unwrap_or_default()));
        }
    }
    tally.kills += killed.len() as u32;
    tally.runs += 1;
    let ran = running.wait(LONGEST);
    let wrong = match scratch.stored() {
        None => vec![format!("no report: {}", ran.stderr)],
        Some(report) => wrong_in(&report, ran.code),
    };
    scratch.assert_no_process_left();
    tally.wrong.extend(wrong.into_iter().map(|wrong| format!("{killed:?}: {wrong}")));
}

/// A worker or a sampler of the run, by chance; none if the run ends before there is one.
fn victim(scratch: &Scratch, running: &Running, random: &mut Random) -> Option<(i32, String)> {
    let role = if random.below(3) == 0 { "__sampler" } else { "__worker" };
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        let all = scratch.processes();
        let mut of_role: Vec<_> = all.iter().filter(|(_, line)| line.contains(role)).cloned().collect();
        if !of_role.is_empty() {
            return Some(of_role.swap_remove(random.below(of_role.len())));
        }
        if !all.iter().any(|(pid, _)| *pid == running.pid()) {
            return None;
        }
    }
    None
}

/// What a report must not say after a kill.
fn wrong_in(report: &Report, code: Option<i32>) -> Vec<String> {
    let unexpected = report.scenarios.iter().filter(|it| it.verdict.expectation == ExpectationMet::Unexpected);
    let mut wrong: Vec<String> =
        unexpected.map(|it| format!("{} is unexpected: {:?}", it.name, it.verdict.unexpected)).collect();
    if !report.complete {
        wrong.push("the report is not complete".to_string());
    }
    if report.run.exit.as_ref().map(|exit| exit.code) != code {
        wrong.push(format!("the report says {:?}, the shell {code:?}", report.run.exit));
    }
    wrong
}

#[test]
fn a_few_kills_spoil_no_answer() {
    sweep(8, 20);
}

#[test]
#[ignore = "minutes"]
fn four_hundred_kills_spoil_no_answer() {
    let seed = std::env::var("SWEEP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    sweep(400, seed);
}
