//! What one scenario asks, does and expects: `show`.

use super::join_whitespace;
use crate::block::{Block, Text};
use crate::writer::terminal::{PAGE, write};
use crate::{lines, sentence, versions};
use cuda_pitfalls_calls as calls;
use cuda_pitfalls_core::scenario::{Case, Gpus, Instance, Needs, Scalar, Scenario, Step, symptom};
use cuda_pitfalls_core::text::counts::listed;

/// One scenario in words: what is asked, answered and to be done, how to ask it here; then which calls are made, what is
/// expected and why. Of several instances it shows the first.
pub fn text(scenario: &Scenario, width: usize) -> String {
    let mut page = vec![Block::paragraph(&scenario.name)];
    // What most readers came for.
    page.extend(facts([
        ("question", scenario.question.clone()),
        ("answer", scenario.answer.clone()),
        ("workaround", scenario.workaround.clone()),
    ]));
    // A command is not broken: it is copied.
    page.extend([
        Block::fact("ask it here", Text::code(command(scenario))),
        Block::Gap,
    ]);
    page.extend(field_blocks(scenario));
    if let Some(instance) = scenario.instances.first() {
        page.extend(instance_blocks(scenario, instance));
    }
    write(&page, width.min(PAGE))
}

fn field_blocks(scenario: &Scenario) -> impl Iterator<Item = Block> {
    let symptoms = scenario.symptoms.iter().filter_map(|id| symptom::find(id));
    let symptoms: Vec<&str> = symptoms.map(|symptom| symptom.sentence.as_str()).collect();
    let instance = scenario
        .instances
        .first()
        .filter(|instance| versions::has_versioned(&instance.expect));
    let versions =
        instance.map(|instance| versions::lines(&instance.expect, Scalar::to_string).join("; "));
    let (step, attempt) = (
        format_seconds(scenario.step_timeout_ms),
        format_seconds(scenario.timeout_ms),
    );
    let repeat = scenario.repeat;
    let mixture = if scenario.nondeterministic {
        "a mixture is an answer"
    } else {
        ""
    };
    let fields = [
        ("why", scenario.why.clone()),
        ("belief", scenario.belief.clone()),
        ("CUDA calls", scenario.twin.clone().unwrap_or_default()),
        ("symptoms", symptoms.join("; ")),
        ("messages", scenario.says.join("; ")),
        ("versions", versions.unwrap_or_default()),
        ("tags", scenario.tags.join(" ")),
        ("needs", needs(&scenario.needs)),
        (
            "hazards",
            listed(scenario.hazards.iter().map(|hazard| hazard.name()), ""),
        ),
        (
            "attempts",
            format!("{repeat} of each case; a step takes at most {step} s, an attempt {attempt} s"),
        ),
        ("outcomes", mixture.to_string()),
    ];
    let parameters = scenario.parameters.iter();
    let parameters =
        parameters.map(|(name, values)| Block::fact(&format!("${{{name}}}"), listed(values, "")));
    facts(fields).chain(parameters)
}

/// Names with what there is to say about them, their line breaks blanks as any other.
fn facts<const N: usize>(fields: [(&'static str, String); N]) -> impl Iterator<Item = Block> {
    let fields = fields
        .into_iter()
        .map(|(name, text)| (name, join_whitespace(&text)));
    fields
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| Block::fact(name, text))
}

/// The calls of an instance, what they are expected to show, and what the scenario rests on.
fn instance_blocks(scenario: &Scenario, instance: &Instance) -> Vec<Block> {
    let mut blocks = Vec::new();
    if scenario.instances.len() > 1 {
        let count = scenario.instances.len();
        blocks.push(heading_block(&format!(
            "The first of {count} instances, {}:",
            instance.name
        )));
    }
    for case in &instance.cases {
        blocks.push(heading_block(&format!("{}: {}", case.name, case.does)));
        blocks.extend(case_blocks(case));
    }
    if !scenario.no_control.is_empty() {
        blocks.push(heading_block(&format!(
            "There is no control: {}",
            scenario.no_control
        )));
    }
    blocks.push(heading_block("The pitfall shows in an attempt when"));
    blocks.push(Block::list(
        instance
            .effect
            .iter()
            .map(|check| join_whitespace(&sentence::check(check))),
    ));
    // An address is not broken: a terminal opens it.
    let sources = scenario
        .sources
        .iter()
        .map(|source| Text::code(join_whitespace(source)));
    let expected = instance
        .expect
        .iter()
        .map(|expectation| join_whitespace(&sentence::expected(expectation)).into());
    for (heading, items) in [
        ("Expected", expected.collect::<Vec<Text>>()),
        ("Sources", sources.collect()),
    ] {
        if !items.is_empty() {
            blocks.extend([Block::heading(2, heading), Block::List(items)]);
        }
    }
    blocks
}

fn heading_block(text: &str) -> Block {
    Block::heading(2, join_whitespace(text))
}

fn case_blocks(case: &Case) -> Vec<Block> {
    let gpus = match case.gpus {
        Gpus::All => "all GPUs, no mask".to_string(),
        Gpus::Masked(1) => "1 GPU by mask".to_string(),
        Gpus::Masked(n) => format!("{n} GPUs by mask"),
    };
    let env: String = case
        .env
        .iter()
        .map(|(name, value)| format!(", {name}={value}"))
        .collect();
    let probes = if case.probes { "" } else { ", no probes" };
    let needs = case
        .python
        .iter()
        .map(|python| python.needs.join(", "))
        .filter(|needs| !needs.is_empty());
    let code = match case.python {
        Some(_) => Block::Code("python", lines::program(&case.steps, None)),
        None => Block::Code(
            "c",
            case.steps
                .iter()
                .zip(1..)
                .map(|(step, n)| format!("{n:2}  {}", call(step)))
                .collect(),
        ),
    };
    let mut blocks = vec![Block::paragraph(format!("starts with {gpus}{env}{probes}"))];
    blocks.extend(needs.map(|needs| Block::fact("needs", needs)));
    blocks.extend([
        code,
        Block::list(
            case.expect
                .iter()
                .map(|check| join_whitespace(&sentence::check(check))),
        ),
    ]);
    blocks
}

/// The command that asks this machine.
pub(crate) fn command(scenario: &Scenario) -> String {
    let hazards: String = scenario
        .hazards
        .iter()
        .map(|hazard| format!(" --allow {}", hazard.name()))
        .collect();
    format!("cuda-pitfalls run {}{hazards}", scenario.name)
}

/// Milliseconds as seconds: `1500` is `1.5`.
fn format_seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_string()
}

/// A step as a call in C, with what it binds before it and where it runs after it.
pub(crate) fn call(step: &Step) -> String {
    let in_c_order = calls::find(&step.call)
        .into_iter()
        .flat_map(|call| call.input_params());
    let arguments = in_c_order
        .filter_map(|param| Some(format!("{} = {}", param.name, step.args.get(param.name)?)));
    let arguments = listed(arguments, "");
    let bound = step.bind.iter().map(|name| format!("{name} = "));
    let on = step.on.iter().map(|on| format!("  on {on}"));
    let from = step.from.iter().map(|from| format!("  from {from}"));
    let is_labelled = step.label != step.call && !step.label.contains('#');
    let label = is_labelled.then(|| format!("  [{}]", step.label));
    bound
        .chain([format!("{}({arguments})", step.call)])
        .chain(on)
        .chain(from)
        .chain(label)
        .collect()
}

fn needs(needs: &Needs) -> String {
    let mut all = vec![format!(
        "{} GPU{}",
        needs.gpus,
        if needs.gpus == 1 { "" } else { "s" }
    )];
    let ranges = [
        ("driver", &needs.driver),
        ("libcudart", &needs.libcudart),
        ("compute capability", &needs.compute_capability),
    ];
    for (name, range) in ranges {
        all.extend(range.as_ref().map(|range| format!("{name} {range}")));
    }
    all.extend(needs.root.then(|| "root".to_string()));
    all.extend(needs.peer_access.then(|| "peer access".to_string()));
    all.join(", ")
}
