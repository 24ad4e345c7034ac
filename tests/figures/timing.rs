//! How long calls took.

use cuda_pitfalls::event::Event;

use super::Page;
use crate::common::read_reports;

const ASKED: &str = "context/eager-loading-costs-memory";
/// The reports on which the figures stand: machines that nobody else used.
const IDLE: [&str; 3] = ["h200-x1-second", "h200-x2-contexts", "h200-x4-one-gpu"];

#[test]
fn an_eager_handle_of_cublas_takes_a_second_or_more() {
    let (mut eager, mut lazy) = (Vec::new(), 0.0_f64);
    let reports = read_reports().iter().filter(|(name, _)| IDLE.contains(&name.as_str()));
    for scenario in reports.flat_map(|(_, report)| &report.scenarios).filter(|it| it.scenario == ASKED) {
        let plan = scenario.plan.as_ref().expect("it was asked");
        for case in &scenario.cases {
            let create = plan.case(&case.name).and_then(|it| it.steps.iter().position(|step| step.label == "create"));
            let counting = case.attempts.iter().filter(|attempt| attempt.judged.invalid.is_empty());
            for said in counting.flat_map(|attempt| &attempt.recording.events) {
                match &said.event {
                    Event::End { step, elapsed_ns, .. } if Some(*step) == create => {
                        let seconds = *elapsed_ns as f64 / 1e9;
                        if case.name == "trap" { eager.push(seconds) } else { lazy = lazy.max(seconds) }
                    }
                    _ => {}
                }
            }
        }
    }
    eager.sort_by(f64::total_cmp);
    let (least, most, slowest) = (eager[0], eager[eager.len() - 2], eager[eager.len() - 1]);
    Page::open("docs/findings.md").says(format!(
        "and {least:.1} to {most:.1} s ({slowest:.1} s in the first of {} attempts) instead of at most {lazy:.2} s",
        eager.len()
    ));
    Page::open("scenarios/context/eager-loading-costs-memory.toml")
        .says(format!("takes {least:.1} to {most:.1} s to make, and {slowest:.1} s the first time"));
}
