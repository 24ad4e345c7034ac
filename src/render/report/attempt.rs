//! An attempt on a page: memory over time, its end, and the output of the worker.

use crate::block::{Block, Span, Tone};
use crate::svg::{Chart, ChartLine};
use cuda_pitfalls_core::event::Event;
use cuda_pitfalls_core::recording::ProcessExit;
use cuda_pitfalls_core::report::{Attempt, CaseView, ReportView, ScenarioView};
use cuda_pitfalls_core::text::escape::quote_tail;
use cuda_pitfalls_core::text::units;

/// Output tails are cut to this many bytes.
const TAIL: usize = 8192;

/// Returns the attempt, as the example of its case.
pub(super) fn blocks(
    report: &ReportView<'_>,
    scenario: &ScenarioView<'_>,
    case: &CaseView<'_>,
    attempt: &Attempt,
) -> Vec<Block> {
    let chart = memory_chart(report, scenario, case, attempt);
    let has_changed = chart
        .lines
        .iter()
        .any(|line| line.points.iter().any(|(_, bytes)| *bytes != 0));
    let unchanged = if has_changed {
        ""
    } else {
        "Memory did not change on any GPU. "
    };
    let mut blocks: Vec<Block> = has_changed
        .then_some(Block::Chart(chart))
        .into_iter()
        .collect();
    blocks.push(Block::paragraph(Span::Toned(
        Tone::Dim,
        format!("{unchanged}{}", reading(attempt)),
    )));
    blocks.extend(
        end(&attempt.recording.exit).map(|end| Block::paragraph(format!("The worker {end}."))),
    );
    for (name, text) in [
        ("stdout", &attempt.recording.stdout_tail),
        ("stderr", &attempt.recording.stderr_tail),
    ] {
        if !text.is_empty() {
            let lines = quote_tail(text, TAIL).lines().map(str::to_owned).collect();
            blocks.push(Block::Fold(
                format!("The end of the worker's {name}"),
                vec![Block::Code("", lines)],
            ));
        }
    }
    blocks
}

/// Returns how closely memory was sampled, which limits what the chart can show.
fn reading(attempt: &Attempt) -> String {
    let mut words = format!(
        "Attempt {}, {}",
        attempt.order + 1,
        units::format_duration(attempt.recording.wall_ns)
    );
    if let Some(run) = &attempt.recording.polling {
        words.push_str(&format!(
            ", each GPU read {} times, longest gap {}",
            run.reads,
            units::format_duration(run.longest_gap_ns)
        ));
        if !run.stalls.is_empty() {
            words.push_str(&format!(", {} stalls", run.stalls.len()));
        }
        if run.truncated {
            words.push_str(", changes beyond the limit omitted");
        }
    }
    words.push('.');
    words
}

/// Returns how the worker ended, if it did not end normally.
fn end(exit: &ProcessExit) -> Option<String> {
    let mut words = Vec::new();
    words.extend(
        exit.signal
            .as_ref()
            .map(|signal| format!("killed by {signal}")),
    );
    words.extend(
        exit.code
            .filter(|code| *code != 0)
            .map(|code| format!("exited with {code}")),
    );
    words.extend(
        exit.died_at
            .map(|step| format!("was making step {}", step.saturating_add(1))),
    );
    words.extend(exit.deadline_at.map(|step| {
        format!(
            "did not return from step {} in time",
            step.saturating_add(1)
        )
    }));
    if !exit.sent.is_empty() {
        words.push(format!("was sent {}", exit.sent.join(", ")));
    }
    if exit.leaked_children > 0 {
        words.push(format!("left {} processes behind", exit.leaked_children));
    }
    if exit.unkillable {
        words.push("could not be killed".to_owned());
    }
    if exit.oom_killed {
        words.push("was ended because host memory ran out".to_owned());
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns every GPU's memory as changes since the baseline: snapshots at the steps, and the readings in between.
fn memory_chart(
    report: &ReportView<'_>,
    scenario: &ScenarioView<'_>,
    case: &CaseView<'_>,
    attempt: &Attempt,
) -> Chart {
    let mut marks: Vec<(u64, String)> = Vec::new();
    for said in &attempt.recording.events {
        if let Event::Begin { step, t_ns } = said.event {
            marks.push((t_ns, (step.saturating_add(1)).to_string()));
        }
    }
    marks.sort();
    let mut lines = Vec::new();
    for (index, gpu) in report.machine.gpus.iter().enumerate() {
        let name = scenario
            .plan
            .as_ref()
            .and_then(|plan| plan.gpu_name(&gpu.uuid))
            .unwrap_or_else(|| gpu.uuid.clone());
        lines.push(ChartLine {
            name,
            colour: index,
            points: memory_points(attempt, index),
        });
    }
    lines.retain(|line| !line.points.is_empty());
    let read = lines.iter().flat_map(|line| &line.points).map(|(t, _)| *t);
    let stamps = read.chain(marks.iter().map(|(t, _)| *t));
    let from = stamps.clone().min().unwrap_or(attempt.recording.started_ns);
    let to = stamps.max().unwrap_or(from).max(
        attempt
            .recording
            .started_ns
            .saturating_add(attempt.recording.wall_ns),
    );
    let title = format!(
        "Memory over time in {} of {}; the numbers above are steps",
        case.name, scenario.name
    );
    Chart {
        title,
        span_ns: (from, to),
        lines,
        marks,
        ..Chart::default()
    }
}

/// Returns one GPU's memory, in order of time, relative to the first snapshot.
fn memory_points(attempt: &Attempt, gpu: usize) -> Vec<(u64, i64)> {
    let swept = attempt.recording.snapshots.iter().filter_map(|snapshot| {
        let read = snapshot.snapshot.gpus.get(gpu)?.used_bytes?;
        Some((snapshot.snapshot.t_ns, read))
    });
    let changed = attempt
        .recording
        .polling
        .iter()
        .flat_map(|run| &run.changes)
        .filter(|change| change.gpu == gpu);
    let mut points: Vec<(u64, u64)> = swept.collect();
    let Some((_, baseline)) = points.first().copied() else {
        return Vec::new();
    };
    points.extend(changed.map(|change| (change.t_ns, change.used_bytes)));
    points.sort_by_key(|(t, _)| *t);
    points
        .into_iter()
        .map(|(t, used)| {
            (
                t,
                used.saturating_sub(baseline) as i64 - baseline.saturating_sub(used) as i64,
            )
        })
        .collect()
}
