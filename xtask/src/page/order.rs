//! The section with the order that works beside the order that does not.

use std::fmt::Write as _;

use cuda_pitfalls::render::lines;
use cuda_pitfalls::scenario::{Case, Gpus, Instance, Scalar, Scenario, Step};
use cuda_pitfalls_calls::{self as calls, Effect, ParamKind};

use super::Pitfall;
use super::prose::{capitalised, code, fenced, paragraph, prose, value};
use super::showed::mib;
use super::table::Table;

/// Longer lists of calls are shortened in the middle.
const MOST_ROWS: usize = 24;

pub(super) fn section(out: &mut String, scenario: &Scenario, instance: &Instance, standing: Pitfall) {
    let (title, control_is) = match standing {
        Pitfall::Happens => ("The order that works", "control, which works"),
        Pitfall::Harmless => ("What was compared", "control"),
        Pitfall::Open => ("What is compared", "control"),
    };
    if !scenario.workaround.is_empty() {
        let doubt = if standing == Pitfall::Open { "Not measured yet: " } else { "" };
        out.push_str("\n## What to write\n");
        paragraph(out, &format!("{doubt}{}", prose(&scenario.workaround)));
    }
    let _ = writeln!(out, "\n## {title}");
    let [trap, control] = ["trap", "control"].map(|name| instance.cases.iter().find(|case| case.name == name));
    let shown = [("trap", trap), (control_is, control)];
    let shown: Vec<(&str, &Case)> = shown.into_iter().filter_map(|(word, case)| Some((word, case?))).collect();
    if !instance.values.is_empty() {
        let values: Vec<String> =
            instance.values.iter().map(|(name, scalar)| format!("{} = {}", prose(name), value(scalar))).collect();
        paragraph(out, &format!("With {}:", values.join(", ")));
    }
    if shown.iter().any(|(_, case)| case.python.is_some()) {
        for (word, case) in &shown {
            let (word, starts) = (capitalised(word), start(case));
            paragraph(out, &format!("{word}: {} ({starts}).", prose(case.does.trim_end_matches('.'))));
            let program = lines::program(&case.steps, None);
            fenced(out, "python", program.iter().map(|line| planned(line)));
        }
        no_control(out, scenario);
        return;
    }
    let head = shown.iter().map(|(word, case)| format!("{word}: {}", prose(&case.does)));
    let mut table = Table::new(std::iter::once(String::new()).chain(head));
    let starts: Vec<String> = shown.iter().map(|(_, case)| start(case)).collect();
    if starts.iter().any(|start| Some(start) != starts.first()) || shown.iter().any(|(_, case)| !case.env.is_empty()) {
        table.row(std::iter::once("start".to_owned()).chain(starts));
    }
    let rows = shown.iter().map(|(_, case)| case.steps.len()).max().unwrap_or(0);
    for row in 0..rows {
        if rows > MOST_ROWS && row == MOST_ROWS - 2 {
            table.row(std::iter::once("…".to_owned()).chain(shown.iter().map(|_| "…".to_owned())));
        }
        if rows > MOST_ROWS && row >= MOST_ROWS - 2 && row + 1 < rows {
            continue;
        }
        let cells =
            shown.iter().map(|(_, case)| case.steps.get(row).map(|step| call(instance, step)).unwrap_or_default());
        table.row(std::iter::once((row + 1).to_string()).chain(cells));
    }
    table.write(out);
    no_control(out, scenario);
}

fn no_control(out: &mut String, scenario: &Scenario) {
    if !scenario.no_control.is_empty() {
        paragraph(
            out,
            &format!("There is nothing to compare it with: {}.", prose(scenario.no_control.trim_end_matches('.'))),
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
    let variables = case.env.iter().map(|(name, value)| code(&format!("{name}={}", planned(value))));
    std::iter::once(gpus).chain(variables).collect::<Vec<_>>().join(", ")
}

/// A step as a C call, with the name that it binds, where it runs, and its label if checks use it.
fn call(instance: &Instance, step: &Step) -> String {
    if step.has(Effect::Marks) {
        return format!("(look){}", named(instance, step));
    }
    let in_c_order = calls::find(&step.call).into_iter().flat_map(|call| call.inputs());
    let args: Vec<String> = in_c_order
        .filter_map(|param| {
            let given = match (step.args.get(param.name)?, param.kind) {
                (Scalar::Int(bytes), ParamKind::Bytes) if bytes % (1 << 10) == 0 => mib(*bytes),
                (Scalar::Int(bytes), ParamKind::Bytes) => format!("{bytes} B"),
                (given, _) => planned(&given.to_string()),
            };
            Some(format!("{} = {given}", param.name))
        })
        .collect();
    let bound = step.bind.as_ref().map(|name| format!("{name} = ")).unwrap_or_default();
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
    let checks = instance.effect.iter().chain(instance.cases.iter().flat_map(|case| &case.expect));
    let is_used = step.label != step.call && checks.into_iter().any(|check| check.at == step.label);
    if is_used { format!(" ← {}", code(&step.label)) } else { String::new() }
}

/// A text in which templates of the plan are replaced by words.
fn planned(text: &str) -> String {
    let mut words = text.replace("${gpus}", "number of GPUs");
    for place in 0..8 {
        words = words.replace(&format!("${{gpu{place}}}"), &format!("UUID of gpu{place}"));
    }
    words
}
