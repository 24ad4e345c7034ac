//! `run --lanes`: questions that are asked at the same time have the answers that they have alone, and nothing is lost
//! when a lane or the run ends early.

use crate::common;

use cuda_pitfalls::judge::rejudge;
use cuda_pitfalls::report::Report;
use cuda_pitfalls::verdict::Kind;
use rustix::process::{Pid, Signal, kill_process};

use common::{LONGEST, Running, Scratch, eventually, part};

const FOUR: &str = "sim:h200-x4";

/// Of two GPUs, of one, of three, of all, and with a hazard.
const QUESTIONS: [&str; 5] = [
    "context/set-device-is-eager",
    "memory/context-cost",
    "context/peer-copy-makes-one-on-a-third",
    "visibility/mask-after-cuinit",
    "fault/launch-and-exit-say-success",
];

fn kinds(report: &Report) -> Vec<(&str, Kind)> {
    report.scenarios.iter().map(|one| (one.name.as_str(), one.verdict.kind)).collect()
}

#[test]
fn what_fits_into_a_lane_is_asked_in_one_and_the_rest_afterwards() {
    let options = ["--quick", "--allow", "fault", "--seed", "7"];
    let (scratch, alone) = (Scratch::new(), Scratch::new());
    let (ran, report) = scratch.simulate(FOUR, &QUESTIONS, &[&options[..], &["--lanes", "2"]].concat());
    let (ran_alone, report_alone) = alone.simulate(FOUR, &QUESTIONS, &options);
    assert_eq!((ran.code, kinds(&report)), (ran_alone.code, kinds(&report_alone)));
    assert!(report.complete && report.scenarios.iter().all(|one| one.asked_by_name));
    let lanes: Vec<Option<usize>> = QUESTIONS.iter().map(|name| part(&report, name).lane).collect();
    assert_eq!(lanes, [Some(0), Some(1), None, None, None]);
    let uuids: Vec<&String> = report.machine.gpus.iter().map(|gpu| &gpu.uuid).collect();
    assert_eq!(report.run.lanes.iter().flatten().collect::<Vec<_>>(), uuids, "two neighbours each");
    for (name, lane) in QUESTIONS.iter().zip(&lanes) {
        let plan = part(&report, name).plan.as_ref().expect("it was asked");
        let masks = plan.cases.iter().filter_map(|case| case.mask.as_ref()).flatten();
        let is_of_lane = |uuid: &String| lane.is_none_or(|lane| report.run.lanes[lane].contains(uuid));
        assert!(masks.into_iter().all(is_of_lane), "{name}");
        // A lane reads its own GPUs, and nothing is known of the others.
        let attempts = part(&report, name).cases.iter().flat_map(|case| &case.attempts);
        for reading in attempts.flat_map(|attempt| &attempt.recording.sweeps).map(|sweep| &sweep.sweep.gpus) {
            for (gpu, reading) in report.machine.gpus.iter().zip(reading) {
                assert_eq!(reading.used_bytes.is_some(), is_of_lane(&gpu.uuid), "{name}: {reading:?}");
            }
        }
    }
    // Whoever judges it again comes to the same, although other lanes used other GPUs meanwhile.
    let mut again = report.clone();
    rejudge(&mut again);
    assert_eq!(kinds(&again), kinds(&report));
    let compared = scratch.run(&[
        "compare",
        &alone.reports().read_dir().unwrap().next().unwrap().unwrap().path().to_string_lossy(),
        &scratch.reports().read_dir().unwrap().next().unwrap().unwrap().path().to_string_lossy(),
    ]);
    compared.ended(0, "ok");
    scratch.assert_no_process_left();
}

#[test]
fn each_lane_needs_a_gpu() {
    let run = |more: &[&str]| Scratch::new().run(&[&["run", "--on", "sim:h200-x2", "--quick"], more].concat());
    let few = run(&["--lanes", "3"]);
    few.ended(2, "usage");
    assert!(few.stderr.contains("--lanes 3: each needs a GPU, and 2 GPUs may be used"), "{}", few.stderr);
    for wrong in ["0", "1", "x", "65"] {
        assert!(run(&["--lanes", wrong]).stderr.contains("a number from 2 to 64"), "{wrong}");
    }
    run(&["--lanes", "2", "--fail-fast"]).ended(2, "usage");
    let preview = run(&["memory/context-cost", "--lanes", "2", "--dry-run"]);
    preview.ended(0, "ok");
    assert!(preview.stdout.contains("2 lanes of 1 GPU ask 1 of these at the same time"), "{}", preview.stdout);
}

/// Starts a run with two lanes, and returns when the one has answered and the other waits for ever.
fn in_the_middle(scratch: &Scratch) -> Running {
    let files = ["tests/selftest/clean.toml", "tests/selftest/hang-long.toml"];
    let mut arguments = scratch.arguments("sim:h200-x2", &files);
    arguments.extend(["--repeat", "1", "--lanes", "2"].map(String::from));
    let running = scratch.start(scratch.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    eventually("the first lane's answer is on disk", LONGEST, || has_clean(&scratch.stored()?).then_some(()));
    scratch.sleeper();
    running
}

fn has_clean(report: &Report) -> bool {
    report.scenarios.iter().any(|one| one.name == "selftest/clean" && one.verdict.kind == Kind::Reproduced)
}

#[test]
fn ctrl_c_ends_the_lanes_and_keeps_what_they_answered() {
    let scratch = Scratch::new();
    let running = in_the_middle(&scratch);
    running.signal(Signal::INT);
    running.wait(LONGEST).ended(130, "interrupted");
    scratch.assert_no_process_left();
    let report = scratch.stored().expect("a report is on disk");
    assert!(has_clean(&report) && !report.complete);
    let broken_off = part(&report, "selftest/hang-long");
    assert_eq!(broken_off.lane, Some(1), "what a lane has begun is kept too");
    assert!(!broken_off.verdict.kind.is_conclusive());
}

#[test]
fn lanes_die_with_their_run() {
    let scratch = Scratch::new();
    let running = in_the_middle(&scratch);
    running.signal(Signal::KILL);
    running.wait(LONGEST);
    eventually("lanes and workers are dead", LONGEST, || scratch.processes().is_empty().then_some(()));
    assert!(has_clean(&scratch.stored().expect("a report is on disk")));
}

/// Ends the second lane, and returns the run when another worker waits: the run asks the question by itself.
fn without_the_second_lane(scratch: &Scratch, signal: Signal) -> Running {
    let running = in_the_middle(scratch);
    let worker = scratch.sleeper();
    let lane = |line: &str| line.contains("__lane") && line.contains("--ask=selftest/hang-long");
    let (pid, _) = scratch.processes().into_iter().find(|(_, line)| lane(line)).expect("the second lane");
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    eventually("another worker waits", LONGEST, || (scratch.sleeper() != worker).then_some(()));
    running
}

#[test]
fn what_a_lane_did_not_answer_is_asked_afterwards() {
    // One that is killed says nothing any more, and one that is told to end says how far it came.
    for (signal, warnings) in [(Signal::KILL, 1), (Signal::TERM, 0)] {
        let scratch = Scratch::new();
        let running = without_the_second_lane(&scratch, signal);
        running.signal(Signal::INT);
        let ran = running.wait(LONGEST);
        ran.ended(130, "interrupted");
        let words = "lane 2 ended early, and its questions are asked afterwards";
        assert_eq!(ran.stderr.matches(words).count(), warnings, "{}", ran.stderr);
        let report = scratch.stored().expect("a report is on disk");
        assert!(has_clean(&report));
        assert_eq!(part(&report, "selftest/hang-long").lane, None, "{signal:?}");
        assert_eq!(report.run.warnings.iter().filter(|warning| warning.starts_with(words)).count(), warnings);
        scratch.assert_no_process_left();
    }
}
