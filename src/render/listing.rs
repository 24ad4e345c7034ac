//! What there is, and what one scenario does: `list` and `show`.

use std::fmt::Write;

use super::{lines, sentence};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::lines as text_lines;

use cuda_pitfalls_calls as calls;
use serde_json::{Value, json};

use super::versions;
use cuda_pitfalls_core::catalogue::Outline;
use cuda_pitfalls_core::scenario::{Case, Gpus, Needs, Scalar, Scenario, Step, symptom};
use cuda_pitfalls_core::text::escape::terminal;

const WIDTH: usize = 100;

/// One scenario a row: name, tags and question, in columns.
pub fn list_text(scenarios: &[Outline]) -> String {
    let tags = |scenario: &Outline| scenario.tags.join(" ");
    let names: Vec<String> = scenarios.iter().map(|scenario| terminal(&scenario.name)).collect();
    let name_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let tags_width = scenarios.iter().map(|s| one_line(&tags(s)).chars().count()).max().unwrap_or(0).min(24);
    let indent = name_width + tags_width + 4;
    let mut text = String::new();
    for (scenario, full_name) in scenarios.iter().zip(&names) {
        // Long names leave little room, but a question in a column of ten characters cannot be read.
        let question = wrap(&scenario.question, WIDTH.saturating_sub(indent).max(30));
        let tags = wrap(&tags(scenario), tags_width.max(1));
        for row in 0..question.len().max(tags.len()) {
            let name = if row == 0 { full_name.as_str() } else { "" };
            let cell = |column: &[String]| column.get(row).cloned().unwrap_or_default();
            let line = format!("{name:name_width$}  {:tags_width$}  {}", cell(&tags), cell(&question));
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

/// What people see, a symptom a row: its id, how many of these scenarios have it, and the sentence. Those that none of
/// them has are left out.
pub fn symptoms_text(scenarios: &[Outline], width: usize) -> String {
    let found = symptoms(scenarios);
    let ids = found.iter().map(|(symptom, _)| symptom.id.len()).max().unwrap_or(0);
    let row = |(symptom, count): &(&symptom::Symptom, usize)| {
        let head = format!("{:ids$}  {:>12}  ", symptom.id, counted(*count, "question"));
        text_lines::sentence(&head, &symptom.sentence, width)
    };
    found.iter().map(row).collect()
}

/// The document that `list --symptoms --json` prints.
pub fn symptoms_json(scenarios: &[Outline]) -> Value {
    let row = |(symptom, count): (&symptom::Symptom, usize)| json!({ "id": symptom.id, "sentence": symptom.sentence, "questions": count });
    json!({ "symptoms": symptoms(scenarios).into_iter().map(row).collect::<Vec<_>>() })
}

/// Symptoms in the order of the file, with how many of these scenarios have each.
fn symptoms(scenarios: &[Outline]) -> Vec<(&'static symptom::Symptom, usize)> {
    let count = |symptom: &symptom::Symptom| scenarios.iter().filter(|it| it.symptoms.contains(&symptom.id)).count();
    symptom::all().iter().map(|symptom| (symptom, count(symptom))).filter(|(_, count)| *count > 0).collect()
}

/// The document that `list --json` prints.
pub fn list_json(scenarios: &[Outline]) -> Value {
    json!({ "scenarios": scenarios })
}

/// One scenario in words: what is asked, which calls are made, what is expected and why. Of several
/// instances it shows the first.
pub fn show_text(scenario: &Scenario) -> String {
    let mut text = format!("{}\n", terminal(&scenario.name));
    field(&mut text, "question", &scenario.question);
    field(&mut text, "why", &scenario.why);
    field(&mut text, "common belief", &scenario.folklore);
    field(&mut text, "answer", &scenario.answer);
    field(&mut text, "workaround", &scenario.remedy);
    field(&mut text, "CUDA calls", scenario.twin.as_deref().unwrap_or_default());
    let symptoms = scenario.symptoms.iter().filter_map(|id| symptom::find(id));
    let symptoms: Vec<&str> = symptoms.map(|symptom| symptom.sentence.as_str()).collect();
    field(&mut text, "symptoms", &symptoms.join("; "));
    field(&mut text, "messages", &scenario.says.join("; "));
    if let Some(instance) = scenario.instances.first().filter(|instance| versions::matter(&instance.expect)) {
        field(&mut text, "versions", &versions::lines(&instance.expect, Scalar::to_string).join("; "));
    }
    field(&mut text, "tags", &scenario.tags.join(" "));
    field(&mut text, "needs", &needs(&scenario.needs));
    let hazards: Vec<&str> = scenario.hazards.iter().map(|hazard| hazard.name()).collect();
    field(&mut text, "hazards", &hazards.join(", "));
    let seconds =
        |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000).trim_end_matches('0').trim_end_matches('.').to_string();
    let limits = (seconds(scenario.step_timeout_ms), seconds(scenario.timeout_ms));
    let runs =
        format!("{} of each case; a step takes at most {} s, an attempt {} s", scenario.repeat, limits.0, limits.1);
    field(&mut text, "attempts", &runs);
    if scenario.nondeterministic {
        field(&mut text, "outcomes", "a mixture is an answer");
    }
    for (name, values) in &scenario.parameters {
        let values: Vec<String> = values.iter().map(|value| value.to_string()).collect();
        field(&mut text, &format!("${{{}}}", terminal(name)), &values.join(", "));
    }
    let Some(instance) = scenario.instances.first() else { return text };
    if scenario.instances.len() > 1 {
        let _ = writeln!(text, "\nThe first of {} instances, {}:", scenario.instances.len(), terminal(&instance.name));
    }
    for case in &instance.cases {
        show_case(&mut text, case);
    }
    if !scenario.no_control.is_empty() {
        let _ = writeln!(text, "\nThere is no control: {}", one_line(&scenario.no_control));
    }
    let _ = writeln!(text, "\nThe pitfall shows in an attempt when");
    for check in &instance.effect {
        bullet(&mut text, &sentence::check(check));
    }
    if !instance.expect.is_empty() {
        let _ = writeln!(text, "\nExpected");
    }
    for expectation in &instance.expect {
        bullet(&mut text, &sentence::expected(expectation));
    }
    if !scenario.sources.is_empty() {
        let _ = writeln!(text, "\nSources");
    }
    for source in &scenario.sources {
        let _ = writeln!(text, "  - {}", one_line(source));
    }
    text
}

fn show_case(text: &mut String, case: &Case) {
    let _ = writeln!(text, "\n{}: {}", terminal(&case.name), one_line(&case.does));
    let gpus = match case.gpus {
        Gpus::All => "all GPUs, no mask".to_string(),
        Gpus::Masked(1) => "1 GPU by mask".to_string(),
        Gpus::Masked(n) => format!("{n} GPUs by mask"),
    };
    let env: String =
        case.env.iter().map(|(name, value)| format!(", {}={}", terminal(name), terminal(value))).collect();
    let probes = if case.probes { "" } else { ", no probes" };
    let _ = writeln!(text, "  starts with {gpus}{env}{probes}");
    if let Some(python) = &case.python {
        if !python.needs.is_empty() {
            field(text, "needs", &python.needs.join(", "));
        }
        for line in lines::program(&case.steps, None) {
            let _ = writeln!(text, "       {}", terminal(&line));
        }
    } else {
        for (i, step) in case.steps.iter().enumerate() {
            let _ = writeln!(text, "  {:3}  {}", i + 1, call(step));
        }
    }
    for check in &case.expect {
        bullet(text, &sentence::check(check));
    }
}

/// A step as a call in C, with what it binds before it and where it runs after it.
pub(super) fn call(step: &Step) -> String {
    let in_c_order = calls::find(&step.call).into_iter().flat_map(|call| call.inputs());
    let args: Vec<String> = in_c_order
        .filter_map(|param| {
            step.args.get(param.name).map(|value| format!("{} = {}", param.name, terminal(&value.to_string())))
        })
        .collect();
    let mut call = format!("{}({})", terminal(&step.call), args.join(", "));
    if let Some(name) = &step.bind {
        call = format!("{} = {call}", terminal(name));
    }
    if let Some(on) = &step.on {
        let _ = write!(call, "  on {}", terminal(on));
    }
    if let Some(from) = &step.from {
        let _ = write!(call, "  from {}", terminal(from));
    }
    if step.label != step.call && !step.label.contains('#') {
        let _ = write!(call, "  [{}]", terminal(&step.label));
    }
    call
}

fn field(text: &mut String, name: &str, value: &str) {
    for (i, line) in wrap(value, WIDTH - 16).iter().enumerate() {
        let _ = writeln!(text, "  {:13} {line}", if i == 0 { name } else { "" });
    }
}

fn bullet(text: &mut String, words: &str) {
    for (i, line) in wrap(words, WIDTH - 4).iter().enumerate() {
        let _ = writeln!(text, "  {} {line}", if i == 0 { "-" } else { " " });
    }
}

fn needs(needs: &Needs) -> String {
    let mut all = vec![format!("{} GPU{}", needs.gpus, if needs.gpus == 1 { "" } else { "s" })];
    let ranges =
        [("driver", &needs.driver), ("libcudart", &needs.libcudart), ("compute capability", &needs.compute_capability)];
    for (name, range) in ranges {
        all.extend(range.as_ref().map(|range| format!("{name} {range}")));
    }
    all.extend(needs.root.then(|| "root".to_string()));
    all.extend(needs.peer_access.then(|| "peer access".to_string()));
    all.join(", ")
}

/// The words of a text, each harmless on a terminal. A text is taken apart before it is escaped, so that the line breaks of
/// a file are blanks as any other.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(terminal)
}

fn one_line(text: &str) -> String {
    words(text).collect::<Vec<_>>().join(" ")
}

/// The words of a text in lines of at most this width; a longer word has a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::scenario::load;

    const SOURCE: &str = r#"
question = "Does CUDA_VISIBLE_DEVICES take effect when it is set after the driver was initialised, or is it too late?"
folklore = "Yes, the process then sees GPU 1 only."
tags = ["A01", "visibility"]
symptoms = ["mask-ignored", "wrong-gpu"]
says = ["it came too late"]
needs = { gpus = 2, driver = ">= 525" }
sources = ["https://example.org"]
no_control = "an example"
effect = [
  { at = "count", status = "CUDA_SUCCESS", value = { count = { ge = 2 } }, memory = { gpu0 = "none" }, because = "it was late" },
  { exit = 0 },
]
expect = [ { verdict = "reproduced", when = { driver = ">= 535" }, because = "measured", evidence = "reports/x" } ]
[cases.trap]
does = "cuInit first"
steps = [
  { cuInit = {} },
  { pthread_create = { as = "B" } },
  { cuDeviceGetCount = {}, label = "count", on = "B" },
  { cudaMalloc = { bytes = "1 MiB", as = "p" } },
]
"#;

    #[test]
    fn a_scenario_is_shown_in_words() {
        let scenario = load("visibility/late", "late.toml", SOURCE, &[]).unwrap();
        let text = show_text(&scenario);
        for line in [
            "visibility/late\n",
            "  symptoms      CUDA_VISIBLE_DEVICES is ignored; My work runs on another GPU than the one I chose\n",
            "  messages      it came too late\n",
            "  versions      since driver 535 the pitfall shows\n",
            "  needs         2 GPUs, driver >= 525\n",
            "    2  B = pthread_create()\n",
            "    3  cuDeviceGetCount()  on B  [count]\n",
            "    4  p = cudaMalloc(bytes = 1048576)\n",
            "  - at count: it returns CUDA_SUCCESS, and count is at least 2, and memory of gpu0 has not changed:\n    it was late\n",
            "  - the worker exits with 0\n",
            "  - reproduced, where driver >= 535: measured (reports/x)\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn symptoms_are_counted_in_the_order_of_the_file() {
        let scenario = load("visibility/late", "late.toml", SOURCE, &[]).unwrap();
        let outlines =
            [Outline::of(&scenario), Outline { symptoms: vec!["wrong-gpu".into()], ..Outline::of(&scenario) }];
        let text = symptoms_text(&outlines, 80);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "mask-ignored    1 question  CUDA_VISIBLE_DEVICES is ignored");
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[1].starts_with("wrong-gpu      2 questions  My work runs"), "{text}");
        assert_eq!(symptoms_json(&outlines)["symptoms"][1]["questions"], json!(2));
    }

    #[test]
    fn a_list_fits_its_width_and_leaves_no_spaces_behind() {
        let scenario = load("visibility/late", "late.toml", SOURCE, &[]).unwrap();
        let text = list_text(&[Outline::of(&scenario)]);
        assert!(text.starts_with("visibility/late  A01 visibility  Does CUDA_VISIBLE_DEVICES"), "{text}");
        assert!(text.lines().count() > 1);
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.trim_end() == line), "{text}");
        let listed = list_json(&[Outline::of(&scenario)]);
        assert_eq!(listed["scenarios"][0]["cases"], json!(["trap"]));
        assert_eq!(listed["scenarios"][0]["instances"], json!(["visibility/late"]));
        assert_eq!(listed["scenarios"][0]["needs"]["gpus"], json!(2));
    }
}
