//! The section that compares the order that works with the order that does not.

use std::fmt::Write as _;

use cuda_pitfalls::render::lines;
use cuda_pitfalls::scenario::{Case, Gpus, Instance, Scalar, Scenario, Step};
use cuda_pitfalls_calls::{self as calls, Effect, ParamKind};

use super::Pitfall;
use super::measured::Measurement;
use super::prose::{capitalize_first, code, to_markdown, value, write_code_block, write_paragraph};
use super::showed::exact_mib;
use crate::table::MarkdownTable;

/// Longer lists of calls are shortened in the middle.
const MOST_ROWS: usize = 24;

pub(super) fn write_orders(
    out: &mut String,
    scenario: &Scenario,
    instance: &Instance,
    standing: Pitfall,
    shown: Option<&Measurement>,
) {
    let (title, control_is) = match standing {
        Pitfall::Happens => ("The order that works", "control, which works"),
        Pitfall::Harmless => ("What was compared", "control"),
        Pitfall::Open => ("What is compared", "control"),
    };
    let _ = writeln!(out, "\n## {title}");
    let mut cases = Vec::new();
    for (name, word) in [("trap", "trap"), ("control", control_is)] {
        if let Some(case) = instance.cases.iter().find(|case| case.name == name) {
            cases.push((word, case));
        }
    }
    let mut values = Vec::new();
    for (name, scalar) in &instance.values {
        values.push(format!("{} = {}", to_markdown(name), value(scalar)));
    }
    if !values.is_empty() {
        write_paragraph(out, &format!("With {}:", values.join(", ")));
    }
    if cases.iter().any(|(_, case)| case.python.is_some()) {
        for (word, case) in cases {
            write_lines(out, word, case, shown);
        }
    } else {
        out.push_str(&calls_table(instance, &cases).to_text());
    }
    if !scenario.no_control.is_empty() {
        let reason = to_markdown(scenario.no_control.trim_end_matches('.'));
        write_paragraph(
            out,
            &format!(
                "This scenario has no control. {}.",
                capitalize_first(&reason)
            ),
        );
    }
}

/// Writes the Python lines of a case, as a measurement saw them if there is one.
fn write_lines(out: &mut String, word: &str, case: &Case, shown: Option<&Measurement>) {
    let words = format!(
        "{}: {} ({}).",
        capitalize_first(word),
        to_markdown(case.does.trim_end_matches('.')),
        start(case)
    );
    write_paragraph(out, &words);
    let program = shown
        .and_then(|shown| seen_lines(shown, &case.name))
        .unwrap_or_else(|| lines::program(&case.steps, None));
    let program = program.iter().map(|line| replace_templates(line));
    write_code_block(out, "python", program);
}

/// Returns the table of the calls of the cases, side by side.
fn calls_table(instance: &Instance, cases: &[(&str, &Case)]) -> MarkdownTable {
    let (mut head, mut starts) = (vec![String::new()], vec!["start".to_owned()]);
    let (mut rows, mut has_variables) = (0, false);
    for (word, case) in cases {
        head.push(format!("{word}: {}", to_markdown(&case.does)));
        starts.push(start(case));
        rows = rows.max(case.steps.len());
        has_variables |= !case.env.is_empty();
    }
    let mut table = MarkdownTable::new(head);
    let mut differing = starts.iter().skip(1).zip(starts.iter().skip(2));
    if has_variables || differing.any(|(start, next)| start != next) {
        table.row(starts);
    }
    for row in 0..rows {
        if rows > MOST_ROWS && row >= MOST_ROWS - 2 && row + 1 < rows {
            if row == MOST_ROWS - 2 {
                table.row(vec!["…"; cases.len() + 1]);
            }
            continue;
        }
        let mut cells = vec![(row + 1).to_string()];
        for (_, case) in cases {
            cells.push(match case.steps.get(row) {
                Some(step) => call(instance, step),
                None => String::new(),
            });
        }
        table.row(cells);
    }
    table
}

/// Returns the Python of a case, with what each line returned and called, and names instead of UUIDs.
fn seen_lines(measurement: &Measurement, case: &str) -> Option<Vec<String>> {
    let plan = measurement.part.plan.as_ref()?;
    let program = lines::case_program(plan.case(case), &measurement.part.case(case)?.view())?;
    let mut text = program.join("\n");
    for (index, uuid) in plan.gpus.iter().enumerate() {
        text = text.replace(uuid.as_str(), &format!("UUID of gpu{index}"));
    }
    Some(text.lines().map(str::to_owned).collect())
}

/// Returns the state that a process starts in, as text.
fn start(case: &Case) -> String {
    let gpus = match case.gpus {
        Gpus::All => "all GPUs".to_owned(),
        Gpus::Masked(1) => "1 GPU".to_owned(),
        Gpus::Masked(gpus) => format!("{gpus} GPUs"),
    };
    let mut words = vec![gpus];
    for (name, value) in &case.env {
        words.push(code(&format!("{name}={}", replace_templates(value))));
    }
    words.join(", ")
}

/// Returns a step as a C call, with the name that it binds, its thread or process, and its label if checks use it.
fn call(instance: &Instance, step: &Step) -> String {
    if step.has(Effect::Marks) {
        return format!("(memory is read){}", named(instance, step));
    }
    let mut args = Vec::new();
    for param in calls::find(&step.call)
        .into_iter()
        .flat_map(|call| call.input_params())
    {
        let Some(given) = step.args.get(param.name) else {
            continue;
        };
        let given = match (given, param.kind) {
            (Scalar::Int(bytes), ParamKind::Bytes) if bytes % (1 << 10) == 0 => exact_mib(*bytes),
            (Scalar::Int(bytes), ParamKind::Bytes) => format!("{bytes} B"),
            (given, _) => replace_templates(&given.to_string()),
        };
        args.push(format!("{} = {given}", param.name));
    }
    let bound = match &step.bind {
        Some(name) => format!("{name} = "),
        None => String::new(),
    };
    let mut words = code(&format!("{bound}{}({})", step.call, args.join(", ")));
    if let Some(from) = &step.from {
        let _ = write!(words, " from {}", code(from));
    }
    if let Some(on) = &step.on {
        let _ = write!(words, " in {}", code(on));
    }
    words + &named(instance, step)
}

fn named(instance: &Instance, step: &Step) -> String {
    let checks = instance
        .effect
        .iter()
        .chain(instance.cases.iter().flat_map(|case| &case.expect));
    let is_used = step.label != step.call && checks.into_iter().any(|check| check.at == step.label);
    if is_used {
        format!(" ← {}", code(&step.label))
    } else {
        String::new()
    }
}

/// Returns a text where templates of the plan are replaced by words.
fn replace_templates(text: &str) -> String {
    let mut words = text.replace("${gpus}", "number of GPUs");
    for place in 0..8 {
        words = words.replace(&format!("${{gpu{place}}}"), &format!("UUID of gpu{place}"));
    }
    words
}
