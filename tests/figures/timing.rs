//! How long calls took.

use cuda_pitfalls::event::Event;

use super::Page;
use crate::common::read_reports;

/// The reports on which the figures stand: machines that nobody else used.
const IDLE: [&str; 3] = ["h200-x1-second", "h200-x2-contexts", "h200-x4-one-gpu"];

/// A report, the number of its machine's GPUs, a case, and how long a step took in it, in seconds.
type Time = (&'static str, usize, &'static str, f64);

/// How long a step took in each attempt that counts, the shortest first.
fn times(asked: &str, label: &str) -> Vec<Time> {
    let mut times = Vec::new();
    for (name, report) in read_reports() {
        let parts = report
            .scenarios
            .iter()
            .filter(|part| part.scenario == asked);
        for (part, case) in parts.flat_map(|part| part.cases.iter().map(move |case| (part, case))) {
            let plan = part
                .plan
                .as_ref()
                .and_then(|plan| plan.case(&case.name))
                .expect("it was asked");
            let place = plan.steps.iter().position(|step| step.label == label);
            let counting = case
                .attempts
                .iter()
                .filter(|attempt| attempt.judged.invalid.is_empty());
            for said in counting.flat_map(|attempt| &attempt.recording.events) {
                if let Event::End {
                    step, elapsed_ns, ..
                } = &said.event
                    && Some(*step) == place
                {
                    times.push((
                        name.as_str(),
                        report.machine.gpus.len(),
                        case.name.as_str(),
                        *elapsed_ns as f64 / 1e9,
                    ));
                }
            }
        }
    }
    times.sort_by(|one, other| one.3.total_cmp(&other.3));
    times
}

#[test]
fn an_eager_handle_of_cublas_takes_a_second_or_more() {
    let times = times("context/eager-loading-costs-memory", "create");
    let idle = times.iter().filter(|(report, ..)| IDLE.contains(report));
    let (eager, others): (Vec<&Time>, Vec<&Time>) =
        idle.partition(|(_, _, case, _)| *case == "trap");
    let (least, most, slowest) = (
        eager[0].3,
        eager[eager.len() - 2].3,
        eager[eager.len() - 1].3,
    );
    let lazy = others.last().expect("attempts").3;
    Page::open("docs/findings.md").says(format!(
        "and {least:.1} to {most:.1} s ({slowest:.1} s in the first of {} attempts) instead of at most {lazy:.2} s",
        eager.len()
    ));
    Page::open("scenarios/context/eager-loading-costs-memory.toml").says(format!(
        "takes {least:.1} to {most:.1} s to make, and {slowest:.1} s the first time"
    ));
}

#[test]
fn cuinit_takes_longer_the_more_gpus_there_are() {
    let times = times("process/exec-gives-a-fresh-driver", "child-init");
    let span = |gpus: usize, asked: &str| {
        let own: Vec<f64> = times
            .iter()
            .filter(|it| (it.1, it.2) == (gpus, asked))
            .map(|it| it.3 * 1e3)
            .collect();
        format!("{:.0} to {:.0}", own[0], own[own.len() - 1])
    };
    for (gpus, words) in [(1, "1 GPU"), (2, "2 GPUs"), (4, "4 GPUs")] {
        let (alone, beside) = (span(gpus, "control"), span(gpus, "trap"));
        Page::open("docs/findings.md").says(format!(
            "{alone} ms with {words}, {beside} beside its parent"
        ));
    }
}
