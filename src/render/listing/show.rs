//! `show`: the question, the calls and the expectations of a scenario.

use super::join_whitespace;
use crate::block::{Block, Text};
use crate::writer::terminal::{PAGE, Screen, write};
use crate::{lines, sentence, versions};
use cuda_pitfalls_calls as calls;
use cuda_pitfalls_core::scenario::{
    Case, Check, Gpus, Instance, Needs, Scalar, Scenario, Step, symptom,
};
use cuda_pitfalls_core::text::counts::{counted, listed};

/// Returns a scenario as text: the question, the answer, the workaround, and how to run it here; then the calls, the
/// expectations and their reasons. If it has several instances, the first is shown.
pub fn text(scenario: &Scenario, screen: impl Into<Screen>) -> String {
    let mut page = vec![Block::paragraph(&scenario.name)];
    // The part that most readers look for.
    page.extend(facts([
        ("question", scenario.question.clone()),
        ("answer", scenario.answer.clone()),
        ("workaround", scenario.workaround.clone()),
    ]));
    // A command is not broken: it is copied.
    page.extend([
        Block::fact("run it here", Text::code(command(scenario))),
        Block::Gap,
    ]);
    page.extend(field_blocks(scenario));
    if let Some(instance) = scenario.instances.first() {
        page.extend(instance_blocks(scenario, instance));
    }
    write(&page, screen.into().at_most(PAGE))
}

fn field_blocks(scenario: &Scenario) -> Vec<Block> {
    let mut symptoms = Vec::new();
    for id in &scenario.symptoms {
        symptoms.extend(symptom::find(id).map(|symptom| symptom.sentence.as_str()));
    }
    let versions = match scenario.instances.first() {
        Some(instance) if versions::has_versioned(&instance.expect) => {
            versions::lines(&instance.expect, Scalar::to_string).join("; ")
        }
        _ => String::new(),
    };
    let hazards = scenario.hazards.iter().map(|hazard| hazard.name());
    let step = format_seconds(scenario.step_timeout_ms);
    let attempt = format_seconds(scenario.timeout_ms);
    let mixture = if scenario.nondeterministic {
        "a mix of outcomes is expected"
    } else {
        ""
    };
    let fields = [
        ("why", scenario.why.clone()),
        ("belief", scenario.belief.clone()),
        ("CUDA calls", scenario.twin.clone().unwrap_or_default()),
        ("symptoms", symptoms.join("; ")),
        ("messages", scenario.says.join("; ")),
        ("versions", versions),
        ("tags", scenario.tags.join(" ")),
        ("needs", needs(&scenario.needs)),
        ("hazards", listed(hazards, "")),
        (
            "attempts",
            format!(
                "{} of each case; a step takes at most {step} s, an attempt {attempt} s",
                scenario.repeat
            ),
        ),
        ("outcomes", mixture.to_string()),
    ];
    let mut blocks = facts(fields);
    for (name, values) in &scenario.parameters {
        blocks.push(Block::fact(&format!("${{{name}}}"), listed(values, "")));
    }
    blocks
}

/// Returns names with their descriptions, with line breaks replaced by spaces.
fn facts<const N: usize>(fields: [(&'static str, String); N]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (name, text) in fields {
        let text = join_whitespace(&text);
        if !text.is_empty() {
            blocks.push(Block::fact(name, text));
        }
    }
    blocks
}

/// Returns the calls of an instance, their expected results, and the evidence of the scenario.
fn instance_blocks(scenario: &Scenario, instance: &Instance) -> Vec<Block> {
    let mut blocks = Vec::new();
    let count = scenario.instances.len();
    if count > 1 {
        let heading = format!("The first of {count} instances, {}:", instance.name);
        blocks.push(heading_block(&heading));
    }
    for case in &instance.cases {
        blocks.push(heading_block(&format!("{}: {}", case.name, case.does)));
        blocks.extend(case_blocks(case));
    }
    if !scenario.no_control.is_empty() {
        let heading = format!("No control: {}", scenario.no_control);
        blocks.push(heading_block(&heading));
    }
    blocks.push(heading_block("The pitfall occurs in an attempt if"));
    blocks.push(check_list(&instance.effect));
    let (mut expected, mut sources) = (Vec::new(), Vec::new());
    for expectation in &instance.expect {
        expected.push(join_whitespace(&sentence::expected(expectation)).into());
    }
    // An address is not broken: a terminal opens it.
    for source in &scenario.sources {
        sources.push(Text::code(join_whitespace(source)));
    }
    for (heading, items) in [("Expected", expected), ("Sources", sources)] {
        if !items.is_empty() {
            blocks.extend([Block::heading(2, heading), Block::List(items)]);
        }
    }
    blocks
}

fn heading_block(text: &str) -> Block {
    Block::heading(2, join_whitespace(text))
}

fn check_list(checks: &[Check]) -> Block {
    let checks = checks.iter();
    Block::list(checks.map(|check| join_whitespace(&sentence::check(check))))
}

fn case_blocks(case: &Case) -> Vec<Block> {
    let mut start = match case.gpus {
        Gpus::All => "starts with all GPUs, no mask".to_string(),
        Gpus::Masked(1) => "starts with 1 GPU by mask".to_string(),
        Gpus::Masked(n) => format!("starts with {n} GPUs by mask"),
    };
    for (name, value) in &case.env {
        start += &format!(", {name}={value}");
    }
    if !case.probes {
        start += ", no probes";
    }
    let mut blocks = vec![Block::paragraph(start)];
    if let Some(python) = &case.python {
        if !python.needs.is_empty() {
            blocks.push(Block::fact("needs", python.needs.join(", ")));
        }
        blocks.push(Block::Code("python", lines::program(&case.steps, None)));
    } else {
        let mut calls = Vec::new();
        for (index, step) in case.steps.iter().enumerate() {
            calls.push(format!("{:2}  {}", index + 1, call(step)));
        }
        blocks.push(Block::Code("c", calls));
    }
    blocks.push(check_list(&case.expect));
    blocks
}

/// Returns the command that runs it on this machine.
pub(crate) fn command(scenario: &Scenario) -> String {
    let mut command = format!("cuda-pitfalls run {}", scenario.name);
    for hazard in &scenario.hazards {
        command += &format!(" --allow {}", hazard.name());
    }
    command
}

/// Returns milliseconds as seconds: `1500` is `1.5`.
fn format_seconds(ms: u64) -> String {
    let seconds = format!("{}.{:03}", ms / 1000, ms % 1000);
    let digits = seconds.trim_end_matches('0');
    digits.trim_end_matches('.').to_string()
}

/// Returns a step as a C call. The variable that it binds comes before the call, its thread or process after it.
pub(crate) fn call(step: &Step) -> String {
    let mut arguments = Vec::new();
    if let Some(call) = calls::find(&step.call) {
        for param in call.input_params() {
            if let Some(value) = step.args.get(param.name) {
                arguments.push(format!("{} = {value}", param.name));
            }
        }
    }
    let mut words = format!("{}({})", step.call, arguments.join(", "));
    if let Some(name) = &step.bind {
        words.insert_str(0, &format!("{name} = "));
    }
    if let Some(on) = &step.on {
        words += &format!("  on {on}");
    }
    if let Some(from) = &step.from {
        words += &format!("  from {from}");
    }
    if step.label != step.call && !step.label.contains('#') {
        words += &format!("  [{}]", step.label);
    }
    words
}

fn needs(needs: &Needs) -> String {
    let mut all = vec![counted(needs.gpus, "GPU")];
    let ranges = [
        ("driver", &needs.driver),
        ("libcudart", &needs.libcudart),
        ("compute capability", &needs.compute_capability),
    ];
    for (name, range) in ranges {
        if let Some(range) = range {
            all.push(format!("{name} {range}"));
        }
    }
    if needs.root {
        all.push("root".to_string());
    }
    if needs.peer_access {
        all.push("peer access".to_string());
    }
    all.join(", ")
}
