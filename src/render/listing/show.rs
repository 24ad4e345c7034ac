//! What one scenario asks, does and expects: `show`.

use std::fmt::Write;

use super::plain;
use crate::{lines, sentence, versions};
use cuda_pitfalls_calls as calls;
use cuda_pitfalls_core::scenario::{Case, Gpus, Needs, Scalar, Scenario, Step, symptom};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::sentence as broken;

const WIDEST: usize = 100;

/// One scenario in words: what is asked, answered and to be done, how to ask it here; then which calls are made, what is
/// expected and why. Of several instances it shows the first.
pub fn text(scenario: &Scenario, width: usize) -> String {
    let mut page = ScenarioPage { text: format!("{}\n", terminal(&scenario.name)), width: width.min(WIDEST) };
    page.head(scenario);
    page.text.push('\n');
    page.fields(scenario);
    page.calls(scenario);
    page.expected(scenario);
    page.text
}

struct ScenarioPage {
    text: String,
    width: usize,
}

impl ScenarioPage {
    fn field(&mut self, name: &str, value: &str) {
        if !value.trim().is_empty() {
            self.text.push_str(&broken(&format!("  {name:13} "), &plain(value), self.width));
        }
    }

    fn bullet(&mut self, words: &str) {
        self.text.push_str(&broken("  - ", &plain(words), self.width));
    }

    fn title(&mut self, words: &str) {
        self.text.push('\n');
        self.text.push_str(&broken("", &plain(words), self.width));
    }

    /// What most readers came for.
    fn head(&mut self, scenario: &Scenario) {
        self.field("question", &scenario.question);
        self.field("answer", &scenario.answer);
        self.field("workaround", &scenario.workaround);
        // A command is not broken: it is copied.
        let _ = writeln!(self.text, "  ask it here   {}", terminal(&command(scenario)));
    }

    fn fields(&mut self, scenario: &Scenario) {
        self.field("why", &scenario.why);
        self.field("common belief", &scenario.belief);
        self.field("CUDA calls", scenario.twin.as_deref().unwrap_or_default());
        let symptoms = scenario.symptoms.iter().filter_map(|id| symptom::find(id));
        let symptoms: Vec<&str> = symptoms.map(|symptom| symptom.sentence.as_str()).collect();
        self.field("symptoms", &symptoms.join("; "));
        self.field("messages", &scenario.says.join("; "));
        if let Some(instance) = scenario.instances.first().filter(|instance| versions::matter(&instance.expect)) {
            self.field("versions", &versions::lines(&instance.expect, Scalar::to_string).join("; "));
        }
        self.field("tags", &scenario.tags.join(" "));
        self.field("needs", &needs(&scenario.needs));
        self.field("hazards", &listed(scenario.hazards.iter().map(|hazard| hazard.name()), ""));
        let (step, attempt) = (seconds(scenario.step_timeout_ms), seconds(scenario.timeout_ms));
        let repeat = scenario.repeat;
        self.field(
            "attempts",
            &format!("{repeat} of each case; a step takes at most {step} s, an attempt {attempt} s"),
        );
        if scenario.nondeterministic {
            self.field("outcomes", "a mixture is an answer");
        }
        for (name, values) in &scenario.parameters {
            self.field(&format!("${{{}}}", terminal(name)), &listed(values, ""));
        }
    }

    fn calls(&mut self, scenario: &Scenario) {
        let Some(instance) = scenario.instances.first() else { return };
        if scenario.instances.len() > 1 {
            self.title(&format!("The first of {} instances, {}:", scenario.instances.len(), instance.name));
        }
        for case in &instance.cases {
            self.case(case);
        }
        if !scenario.no_control.is_empty() {
            self.title(&format!("There is no control: {}", scenario.no_control));
        }
    }

    fn case(&mut self, case: &Case) {
        self.title(&format!("{}: {}", case.name, case.does));
        let gpus = match case.gpus {
            Gpus::All => "all GPUs, no mask".to_string(),
            Gpus::Masked(1) => "1 GPU by mask".to_string(),
            Gpus::Masked(n) => format!("{n} GPUs by mask"),
        };
        let env: String =
            case.env.iter().map(|(name, value)| format!(", {}={}", terminal(name), terminal(value))).collect();
        let probes = if case.probes { "" } else { ", no probes" };
        let _ = writeln!(self.text, "  starts with {gpus}{env}{probes}");
        if let Some(python) = &case.python {
            self.field("needs", &python.needs.join(", "));
            for line in lines::program(&case.steps, None) {
                let _ = writeln!(self.text, "       {}", terminal(&line));
            }
        } else {
            for (i, step) in case.steps.iter().enumerate() {
                let _ = writeln!(self.text, "  {:3}  {}", i + 1, call(step));
            }
        }
        for check in &case.expect {
            self.bullet(&sentence::check(check));
        }
    }

    fn expected(&mut self, scenario: &Scenario) {
        let Some(instance) = scenario.instances.first() else { return };
        self.title("The pitfall shows in an attempt when");
        for check in &instance.effect {
            self.bullet(&sentence::check(check));
        }
        if !instance.expect.is_empty() {
            self.title("Expected");
        }
        for expectation in &instance.expect {
            self.bullet(&sentence::expected(expectation));
        }
        if !scenario.sources.is_empty() {
            self.title("Sources");
        }
        for source in &scenario.sources {
            // An address is not broken: a terminal opens it.
            let _ = writeln!(self.text, "  - {}", plain(source));
        }
    }
}

/// The command that asks this machine.
pub(crate) fn command(scenario: &Scenario) -> String {
    let hazards: String = scenario.hazards.iter().map(|hazard| format!(" --allow {}", hazard.name())).collect();
    format!("cuda-pitfalls run {}{hazards}", scenario.name)
}

/// Milliseconds as seconds: `1500` is `1.5`.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000).trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A step as a call in C, with what it binds before it and where it runs after it.
pub(crate) fn call(step: &Step) -> String {
    let in_c_order = calls::find(&step.call).into_iter().flat_map(|call| call.inputs());
    let argument = |name: &str| Some(format!("{name} = {}", terminal(&step.args.get(name)?.to_string())));
    let arguments = listed(in_c_order.filter_map(|param| argument(param.name)), "");
    let mut call = format!("{}({arguments})", terminal(&step.call));
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
