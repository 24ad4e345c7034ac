//! The section with the order that works beside the order that does not.

use std::fmt::Write as _;

use cuda_pitfalls::render::lines;
use cuda_pitfalls::scenario::{Case, Gpus, Instance, Scalar, Scenario, Step};
use cuda_pitfalls_calls::{self as calls, Effect, ParamKind};

use super::Pitfall;
use super::measured::Measurement;
use super::prose::{capitalize_first, code, to_markdown, value, write_code_block, write_paragraph};
use super::showed::exact_mib;
use super::table::MarkdownTable;

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
    let [trap, control] =
        ["trap", "control"].map(|name| instance.cases.iter().find(|case| case.name == name));
    let cases = [("trap", trap), (control_is, control)];
    let cases: Vec<(&str, &Case)> = cases
        .into_iter()
        .filter_map(|(word, case)| Some((word, case?)))
        .collect();
    if !instance.values.is_empty() {
        let values: Vec<String> = instance
            .values
            .iter()
            .map(|(name, scalar)| format!("{} = {}", to_markdown(name), value(scalar)))
            .collect();
        write_paragraph(out, &format!("With {}:", values.join(", ")));
    }
    if cases.iter().any(|(_, case)| case.python.is_some()) {
        for (word, case) in &cases {
            let (word, starts) = (capitalize_first(word), start(case));
            write_paragraph(
                out,
                &format!(
                    "{word}: {} ({starts}).",
                    to_markdown(case.does.trim_end_matches('.'))
                ),
            );
            let program = shown.and_then(|shown| seen_lines(shown, &case.name));
            let program = program.unwrap_or_else(|| lines::program(&case.steps, None));
            write_code_block(
                out,
                "python",
                program.iter().map(|line| replace_templates(line)),
            );
        }
        no_control(out, scenario);
        return;
    }
    let head = cases
        .iter()
        .map(|(word, case)| format!("{word}: {}", to_markdown(&case.does)));
    let mut table = MarkdownTable::new(std::iter::once(String::new()).chain(head));
    let starts: Vec<String> = cases.iter().map(|(_, case)| start(case)).collect();
    if starts.iter().any(|start| Some(start) != starts.first())
        || cases.iter().any(|(_, case)| !case.env.is_empty())
    {
        table.row(std::iter::once("start".to_owned()).chain(starts));
    }
    let rows = cases
        .iter()
        .map(|(_, case)| case.steps.len())
        .max()
        .unwrap_or(0);
    for row in 0..rows {
        if rows > MOST_ROWS && row == MOST_ROWS - 2 {
            table.row(std::iter::once("…".to_owned()).chain(cases.iter().map(|_| "…".to_owned())));
        }
        if rows > MOST_ROWS && row >= MOST_ROWS - 2 && row + 1 < rows {
            continue;
        }
        let cells = cases.iter().map(|(_, case)| {
            case.steps
                .get(row)
                .map(|step| call(instance, step))
                .unwrap_or_default()
        });
        table.row(std::iter::once((row + 1).to_string()).chain(cells));
    }
    table.write(out);
    no_control(out, scenario);
}

/// The Python of a case, with what each line returned and called, and names instead of UUIDs.
fn seen_lines(measurement: &Measurement, case: &str) -> Option<Vec<String>> {
    let plan = measurement.part.plan.as_ref()?;
    let program = lines::case_program(plan.case(case), &measurement.part.case(case)?.view())?;
    let mut text = program.join("\n");
    for (index, uuid) in plan.gpus.iter().enumerate() {
        text = text.replace(uuid.as_str(), &format!("UUID of gpu{index}"));
    }
    Some(text.lines().map(str::to_owned).collect())
}

fn no_control(out: &mut String, scenario: &Scenario) {
    if !scenario.no_control.is_empty() {
        write_paragraph(
            out,
            &format!(
                "There is nothing to compare it with: {}.",
                to_markdown(scenario.no_control.trim_end_matches('.'))
            ),
        );
    }
}

/// The state in which a process starts, in words.
fn start(case: &Case) -> String {
    let gpus = match case.gpus {
        Gpus::All => "all GPUs".to_owned(),
        Gpus::Masked(1) => "1 GPU".to_owned(),
        Gpus::Masked(gpus) => format!("{gpus} GPUs"),
    };
    let variables = case
        .env
        .iter()
        .map(|(name, value)| code(&format!("{name}={}", replace_templates(value))));
    std::iter::once(gpus)
        .chain(variables)
        .collect::<Vec<_>>()
        .join(", ")
}

/// A step as a C call, with the name that it binds, where it runs, and its label if checks use it.
fn call(instance: &Instance, step: &Step) -> String {
    if step.has(Effect::Marks) {
        return format!("(memory is read){}", named(instance, step));
    }
    let in_c_order = calls::find(&step.call)
        .into_iter()
        .flat_map(|call| call.input_params());
    let args: Vec<String> = in_c_order
        .filter_map(|param| {
            let given = match (step.args.get(param.name)?, param.kind) {
                (Scalar::Int(bytes), ParamKind::Bytes) if bytes % (1 << 10) == 0 => {
                    exact_mib(*bytes)
                }
                (Scalar::Int(bytes), ParamKind::Bytes) => format!("{bytes} B"),
                (given, _) => replace_templates(&given.to_string()),
            };
            Some(format!("{} = {given}", param.name))
        })
        .collect();
    let bound = step
        .bind
        .as_ref()
        .map(|name| format!("{name} = "))
        .unwrap_or_default();
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

/// A text in which templates of the plan are replaced by words.
fn replace_templates(text: &str) -> String {
    let mut words = text.replace("${gpus}", "number of GPUs");
    for place in 0..8 {
        words = words.replace(&format!("${{gpu{place}}}"), &format!("UUID of gpu{place}"));
    }
    words
}
