//! The section with what the cases showed, at the steps that checks name, in one measurement.

use cuda_pitfalls::event::Value;
use cuda_pitfalls::fact::words::{in_order, status};
use cuda_pitfalls::fact::{FactColumn, FactKind, KINDS, Look, Unasked};
use cuda_pitfalls::observation::{Hidden, MemoryObservation, StepObservation};
use cuda_pitfalls::render::facts::outcome_frequency;
use cuda_pitfalls::report::CaseReport;
use cuda_pitfalls::scenario::{Check, Scenario};
use cuda_pitfalls::text::units;

use super::measured::{Measurement, Reference};
use super::prose::{code, escape_text, markdown_link, to_markdown, write_paragraph};
use crate::table::MarkdownTable;

/// Returns the checks about a case: those of the effect, and its own.
fn checks_of<'a>(measurement: &'a Measurement, case: &str) -> Vec<&'a Check> {
    let plan = measurement.part.plan.as_ref();
    let own = plan
        .and_then(|plan| plan.case(case))
        .map(|case| case.expect.as_slice())
        .unwrap_or_default();
    plan.iter()
        .flat_map(|plan| &plan.effect)
        .chain(own)
        .collect()
}

fn is_fact_asked(checks: &[&Check], kind: &FactKind) -> bool {
    checks.iter().any(|check| kind.is_asked(&check.facts))
}

/// Writes the section: a table of the reference measurement.
pub(super) fn write_observations(out: &mut String, scenario: &Scenario, reference: &Reference<'_>) {
    let Some(measurement) = reference.shown_measurement() else {
        return;
    };
    let cases = &measurement.part.cases;
    let mut observed = ObservationTable::new(measurement);
    for case in cases {
        observed.add_case(case);
    }
    if observed.table.len() == 0 {
        return;
    }
    let report = markdown_link(
        &escape_text(&measurement.report),
        &format!("../../../reports/{}", measurement.report),
    );
    let mut words = format!(
        "On {}, driver {}, {} ({report})",
        measurement.gpus(),
        to_markdown(&measurement.driver()),
        to_markdown(&measurement.software_in_words())
    );
    if !scenario.parameters.is_empty() {
        words += &format!(", for {}", values(measurement));
    }
    write_paragraph(out, &(words + ":"));
    out.push_str(&observed.table.to_text());
    let mut notes = vec!["`gpu0`, `gpu1`, …: the GPUs in CUDA's order without a mask, the used ones first. An empty cell was not checked or could not be determined.".to_owned()];
    for case in cases {
        if !matches!(case.name.as_str(), "trap" | "control") {
            notes.extend(does(measurement, case));
        }
    }
    notes.extend(cases.iter().filter_map(mixed_outcomes));
    if observed.has_ends {
        notes.push("The end is the exit code (0 if all steps ran) or the signal.".to_owned());
    }
    write_paragraph(out, &notes.join(" "));
}

/// A row for each step that checks name, of the first outcome of each case.
struct ObservationTable<'m> {
    measurement: &'m Measurement,
    /// The facts with a separate column.
    facts: Vec<&'static FactKind>,
    /// The size of a full bar, in bytes.
    scale: u64,
    table: MarkdownTable,
    /// `true` if a row contains the end of a process.
    has_ends: bool,
}

impl<'m> ObservationTable<'m> {
    fn new(measurement: &'m Measurement) -> ObservationTable<'m> {
        let mut facts = FactKind::kinds_with_column();
        // The lines above already show the calls.
        facts.retain(|kind| kind.key != "calls" || !measurement.is_of_lines());
        let mut head = vec!["case", "after", "returned"];
        for kind in &facts {
            head.push(match kind.told {
                FactColumn::Alone { heading, .. } => heading,
                FactColumn::WithCall | FactColumn::WithMemory => kind.key,
            });
        }
        head.push("change in memory");
        ObservationTable {
            measurement,
            facts,
            scale: memory_scale(measurement),
            table: MarkdownTable::new(head),
            has_ends: false,
        }
    }

    fn add_case(&mut self, case: &CaseReport) {
        let Some(outcome) = case.outcomes.first() else {
            return;
        };
        let asked = checks_of(self.measurement, &case.name);
        let mut name = to_markdown(&case.name);
        for look in Look::all(&outcome.observation) {
            let step = look.step;
            let mut checks = asked.clone();
            checks.retain(|check| check.at == step.label);
            if checks.is_empty() {
                continue;
            }
            let mut row = vec![std::mem::take(&mut name), code(&step.label)];
            row.push(returned(step, &checks));
            for kind in &self.facts {
                row.push(fact_cell(kind, &asked, &look));
            }
            row.push(memory(step, self.scale));
            self.table.row(row);
        }
        let end = &outcome.observation.end;
        if end != "0" || asked.iter().any(|check| check.facts.exit.is_some()) {
            self.has_ends = true;
            self.table.row([name, "the end".to_owned(), code(end)]);
        }
    }
}

fn values(measurement: &Measurement) -> String {
    let mut values = Vec::new();
    for (name, value) in &measurement.part.parameters {
        let value = super::prose::value(value);
        values.push(format!("{} {value}", to_markdown(name)));
    }
    values.join(", ")
}

/// Returns the description of a case, unless it is the trap or the control.
fn does(measurement: &Measurement, case: &CaseReport) -> Option<String> {
    let plan = measurement.part.plan.as_ref()?.case(&case.name)?;
    Some(format!(
        "*{}*: {}.",
        to_markdown(&case.name),
        to_markdown(plan.does.trim_end_matches('.'))
    ))
}

/// Returns a note with the frequency of the outcome in the table, if there were others.
fn mixed_outcomes(case: &CaseReport) -> Option<String> {
    let others = case.outcomes.len().checked_sub(2)? + 1;
    Some(format!(
        "*{}* had {others} other outcome(s); the table shows the most frequent one ({}).",
        to_markdown(&case.name),
        outcome_frequency(&case.view())
    ))
}

/// Returns the cell of a fact, if checks ask about it or it is always shown.
fn fact_cell(kind: &FactKind, asked: &[&Check], look: &Look<'_>) -> String {
    let is_shown = is_fact_asked(asked, kind)
        || matches!(
            kind.told,
            FactColumn::Alone {
                unasked: Unasked::Always,
                ..
            }
        );
    if !is_shown {
        return String::new();
    }
    match (kind.seen)(look, None) {
        Some(seen) => to_markdown(&seen.cell.replace(',', ", ").replace("no GPU", "none")),
        None => String::new(),
    }
}

/// Returns the status, and the values that checks ask about.
fn returned(step: &StepObservation, checks: &[&Check]) -> String {
    if !step.returned {
        return "did not return".to_owned();
    }
    let mut words: Vec<String> = step.status.iter().map(|one| code(&status(one))).collect();
    for (name, value) in step.values.iter().chain(&step.varying) {
        if checks
            .iter()
            .any(|check| check.facts.value.contains_key(name))
        {
            words.push(format!("{} = {}", to_markdown(name), self::value(value)));
        }
    }
    words.join(", ")
}

/// Returns a value; a large round number is also shown as a size.
fn value(value: &Value) -> String {
    match value {
        Value::Int(number) if *number >= 1 << 20 && *number % (1 << 16) == 0 => {
            format!("{number} ({})", exact_mib(*number))
        }
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => code(text),
    }
}

/// Returns the size of a full bar, in bytes: the largest of the first outcomes of all cases.
fn memory_scale(measurement: &Measurement) -> u64 {
    let mut scale = LEAST_SCALE;
    for case in &measurement.part.cases {
        let Some(outcome) = case.outcomes.first() else {
            continue;
        };
        for step in &outcome.observation.steps {
            for (_, memory) in judged_memory(step) {
                scale = scale.max(memory.used_bytes.unwrap_or(0).unsigned_abs());
            }
        }
    }
    scale
}

/// The minimum size of a full bar: the memory of `cuInit` must not look like a context.
const LEAST_SCALE: u64 = 16 << 20;
/// The characters of a full bar.
const BAR_WIDTH: u64 = 8;

/// Returns a bar of block characters, with a space after it; empty if the value rounds to 0.
fn memory_bar(bytes: i64, scale: u64) -> String {
    let eighths = bytes.unsigned_abs().saturating_mul(8 * BAR_WIDTH) / scale;
    let mut bar = "█".repeat((eighths / 8) as usize);
    bar.extend(
        "▏▎▍▌▋▊▉"
            .chars()
            .nth((eighths % 8).wrapping_sub(1) as usize),
    );
    if !bar.is_empty() {
        bar.push(' ');
    }
    bar
}

/// Returns the memory of the GPUs that the run calibrated. The memory of others, as of a machine's GPUs that another run
/// had at the same time, is not the worker's.
fn judged_memory(step: &StepObservation) -> Vec<(&String, &MemoryObservation)> {
    let mut memory = in_order(&step.memory);
    memory.retain(|(_, memory)| memory.hidden != Some(Hidden::Uncalibrated));
    memory
}

/// Returns the changes in memory, by GPU, each with a bar.
fn memory(step: &StepObservation, scale: u64) -> String {
    let mut lines = Vec::new();
    for (gpu, memory) in judged_memory(step) {
        if memory.used_bytes == Some(0) && memory.peak_bytes.is_none() {
            continue;
        }
        let used = memory.used_bytes.map_or_else(
            || "not read".to_owned(),
            |bytes| memory_bar(bytes, scale) + &change(bytes),
        );
        let peak = memory
            .peak_bytes
            .map(|peak| format!(", at most {}", change(peak)))
            .unwrap_or_default();
        lines.push(format!("{gpu} {used}{peak}"));
    }
    if lines.is_empty() {
        "none".to_owned()
    } else {
        lines.join("<br>")
    }
}

fn change(bytes: i64) -> String {
    match bytes {
        0 => "0".to_owned(),
        1.. => format!("+{}", exact_mib(bytes)),
        _ => format!("−{}", exact_mib(bytes.saturating_neg())),
    }
}

/// Returns an exact size in MiB: with up to four decimal places, or followed by the bytes.
pub(super) fn exact_mib(bytes: i64) -> String {
    const MIB: i64 = 1 << 20;
    if bytes < MIB {
        return units::bytes_exact(bytes.unsigned_abs());
    }
    let (whole, rest) = (bytes / MIB, bytes % MIB);
    let digits = format!("{whole}.{:04}", rest * 10_000 / MIB);
    let short = digits.trim_end_matches('0').trim_end_matches('.');
    if rest % (1 << 16) == 0 {
        format!("{short} MiB")
    } else {
        format!("{whole}.{:02} MiB ({bytes} bytes)", rest * 100 / MIB)
    }
}

/// Returns the observations of a trap at the steps of the effect, in a few words.
pub(super) fn brief_outcome(measurement: &Measurement) -> String {
    let effect = measurement
        .part
        .plan
        .as_ref()
        .map(|plan| plan.effect.as_slice())
        .unwrap_or_default();
    let Some(outcome) = measurement
        .part
        .case("trap")
        .and_then(|case| case.outcomes.first())
    else {
        return String::new();
    };
    let mut words: Vec<String> = Vec::new();
    for (place, check) in effect.iter().enumerate() {
        let is_repeated = effect.iter().take(place).any(|other| other.at == check.at);
        if is_repeated {
            continue;
        }
        let Some(look) = Look::at(&outcome.observation, &check.at) else {
            continue;
        };
        let checks: Vec<&Check> = effect.iter().filter(|other| other.at == check.at).collect();
        let mut facts = vec![returned(look.step, &checks)];
        for kind in FactKind::kinds_with_column()
            .into_iter()
            .filter(|kind| is_fact_asked(&checks, kind))
        {
            let cell = fact_cell(kind, &checks, &look);
            if let FactColumn::Alone { brief, .. } = kind.told
                && !cell.is_empty()
            {
                facts.push(format!("{brief} {cell}"));
            }
        }
        if KINDS
            .iter()
            .any(|kind| kind.told == FactColumn::WithMemory && is_fact_asked(&checks, kind))
        {
            let memory = memory(look.step, memory_scale(measurement));
            facts.push(format!("memory {memory}"));
        }
        facts.retain(|fact| !fact.is_empty());
        words.push(format!("{}: {}", code(&check.at), facts.join(", ")));
    }
    if !matches!(outcome.observation.end.as_str(), "0" | "")
        || effect.iter().any(|check| check.facts.exit.is_some())
    {
        words.push(format!("the end: {}", code(&outcome.observation.end)));
    }
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        assert_eq!(
            [3407872, 1 << 20, 552861696, 4096].map(exact_mib),
            ["3.25 MiB", "1 MiB", "527.25 MiB", "4 KiB"]
        );
        assert_eq!(exact_mib(1048577), "1.00 MiB (1048577 bytes)");
        assert_eq!(
            [0, -(2 << 20), 1 << 20].map(change),
            ["0", "−2 MiB", "+1 MiB"]
        );
    }

    #[test]
    fn bars_share_a_scale_and_show_eighths() {
        assert_eq!(
            [800, 450, -100, 13, 12, 0].map(|bytes| memory_bar(bytes, 800)),
            ["████████ ", "████▌ ", "█ ", "▏ ", "", ""]
        );
    }
}
