//! A case of Python lines as a Python program, with the result of each line and its driver calls as comments below it;
//! the same in every format, which escapes it.

use std::collections::BTreeMap;

use cuda_pitfalls_core::fact::words;
use cuda_pitfalls_core::observation::{Observation, StepObservation};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::python::{LINE, LINE_MESSAGE};
use cuda_pitfalls_core::report::{CaseView, OutcomeView};
use cuda_pitfalls_core::scenario::Step;
use cuda_pitfalls_core::text::counts::listed;

/// Maximum number of driver calls that are listed; the others are counted.
const MOST_CALLS: usize = 16;

/// Returns a case and the observations of its most frequent outcome; `None` for a case of C calls.
pub fn case_program(plan: Option<&CasePlan>, case: &CaseView<'_>) -> Option<Vec<String>> {
    let plan = plan?;
    plan.python.as_ref()?;
    let seen = case.outcomes.first().and_then(OutcomeView::observation);
    Some(program(&plan.steps, seen))
}

/// Returns the steps as a program, one line each. Their results follow below, as far as an attempt came.
pub fn program(steps: &[Step], seen: Option<&Observation>) -> Vec<String> {
    let mut out = Vec::new();
    let mut contexts: &[String] = &[];
    for (index, step) in steps.iter().enumerate() {
        let source = step.in_python().replace('\t', "    ");
        let rows = source.trim_end().lines();
        out.extend(
            rows.skip_while(|row| row.trim().is_empty())
                .map(str::to_owned),
        );
        let mut notes = Vec::new();
        if let Some(on) = &step.on {
            notes.push(format!("in {on}"));
        }
        if let Some(label) = named(step) {
            notes.push(format!("[{label}]"));
        }
        if !notes.is_empty()
            && let Some(last) = out.last_mut()
        {
            *last += &format!("  # {}", notes.join(" "));
        }
        let Some(observation) = seen else { continue };
        let Some(step) = observation.steps.get(index) else {
            out.push("#   not reached".to_owned());
            return out;
        };
        for words in step_comments(step, contexts) {
            out.push(format!("#   {words}"));
        }
        contexts = step.contexts.as_deref().unwrap_or(contexts);
    }
    out
}

/// Returns the label of a step, unless it is only its number.
fn named(step: &Step) -> Option<&str> {
    let is_number = step.label.starts_with(&format!("{}#", step.call));
    if step.call != LINE || step.label == step.call || is_number {
        return None;
    }
    Some(&step.label)
}

/// Returns the result of a step, and its effects on the driver.
fn step_comments(step: &StepObservation, before: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    if !step.returned {
        out.push("did not return".to_owned());
    }
    if let Some(status) = &step.status
        && status.code != 0
    {
        let status = words::status(status);
        out.push(match step.varying.get(LINE_MESSAGE).map(words::value) {
            Some(message) if !message.is_empty() => format!("{status}: {message}"),
            _ => status,
        });
    }
    for (name, value) in step.values.iter().chain(&step.varying) {
        if name != LINE_MESSAGE {
            out.push(format!("{name} = {}", words::value(value)));
        }
    }
    if let Some(made) = &step.calls
        && !made.is_empty()
    {
        out.push(format!("driver calls: {}", calls(made)));
    }
    if let Some(contexts) = &step.contexts
        && contexts != before
    {
        out.push(format!("contexts: {}", listed(contexts, "none")));
    }
    // A value or a message may have line breaks, which would end the comment.
    for words in &mut out {
        if let Some(end) = words.find(['\n', '\r']) {
            words.truncate(end);
        }
    }
    out
}

/// Returns the driver calls of a line, the most important first. Hundreds only query; those are counted together.
pub(super) fn calls(made: &BTreeMap<String, u64>) -> String {
    let (mut asking, mut doing) = (0, Vec::new());
    for (name, count) in made {
        if only_asks(name) {
            asking += count;
        } else {
            doing.push((name.as_str(), *count));
        }
    }
    // Within a rank they stay sorted by name.
    doing.sort_by_key(|(name, _)| call_rank(name));
    let mut said = Vec::new();
    for (name, count) in doing.iter().take(MOST_CALLS) {
        said.push(match count {
            1 => (*name).to_owned(),
            _ => format!("{name} ×{count}"),
        });
    }
    let more = doing.len().saturating_sub(MOST_CALLS);
    if more > 0 {
        said.push(format!("{more} more"));
    }
    match asking {
        0 => {}
        1 => said.push("1 query".to_owned()),
        asking => said.push(format!("{asking} queries")),
    }
    said.join(", ")
}

/// Returns `true` if a driver call only queries. cuMemGetInfo does not count as one: in many questions about frameworks
/// it is the call that needs a context.
fn only_asks(name: &str) -> bool {
    let asks = ["Get", "Query", "Is", "CanAccess", "TotalMem"]
        .iter()
        .any(|word| name.contains(word));
    asks && !name.starts_with("cuMemGetInfo")
}

/// Returns the rank of a call: calls that initialize come first, then those that create and destroy contexts, then the
/// rest.
fn call_rank(name: &str) -> u8 {
    let contexts = ["PrimaryCtx", "CtxCreate", "CtxDestroy", "CtxSetCurrent"];
    match name {
        "cuInit" => 0,
        _ if contexts.iter().any(|word| name.contains(word)) => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::event::{Status, Value};

    fn line(text: &str, label: &str) -> Step {
        Step::call(LINE, label).with("line", text)
    }

    #[test]
    fn a_line_stands_above_what_it_gave_and_called() {
        let steps = [
            line("import torch", "py"),
            line("\ndef f():\n    pass\nf()", "ask"),
            line("x", "py#2"),
        ];
        let mut asked = StepObservation {
            label: "ask".into(),
            returned: true,
            ..StepObservation::default()
        };
        asked.status = Some(Status {
            code: 1,
            name: Some("RuntimeError".into()),
        });
        asked
            .varying
            .insert("message".into(), Value::Text("no\nway".into()));
        asked.calls = Some([("cuInit".to_string(), 1), ("cuDeviceGet".to_string(), 2)].into());
        asked.contexts = Some(vec!["gpu0".into()]);
        let first = StepObservation {
            returned: true,
            calls: Some(Default::default()),
            ..StepObservation::default()
        };
        let seen = Observation {
            steps: vec![first, asked],
            end: "exit 3".into(),
        };
        let expected = [
            "import torch",
            "def f():",
            "    pass",
            "f()  # [ask]",
            "#   RuntimeError: no",
            "#   driver calls: cuInit, 2 queries",
            "#   contexts: gpu0",
            "x",
            "#   not reached",
        ];
        assert_eq!(program(&steps, Some(&seen)), expected);
    }

    #[test]
    fn other_steps_are_shown_as_what_python_does() {
        let set = Step::call("setenv", "setenv")
            .with("name", "CUDA_VISIBLE_DEVICES")
            .with("value", "1");
        let mut thread = Step::call("pthread_create", "pthread_create").bound_to("B");
        let mut on = line("work()", "py");
        on.on = Some("B".into());
        thread.line = 2;
        let expected = [
            "os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"1\"",
            "# thread B starts",
            "work()  # in B",
        ];
        assert_eq!(program(&[set, thread, on], None), expected);
    }

    #[test]
    fn long_lists_of_calls_are_cut() {
        let calls = (0..20)
            .map(|number| (format!("cuCall{number:02}"), 1))
            .collect();
        let step = StepObservation {
            returned: true,
            calls: Some(calls),
            ..StepObservation::default()
        };
        assert!(step_comments(&step, &[])[0].ends_with("cuCall15, 4 more"));
    }

    #[test]
    fn calls_that_matter_come_first_and_questions_are_counted() {
        let made = |all: &[(&str, u64)]| {
            all.iter()
                .map(|(name, count)| ((*name).to_string(), *count))
                .collect()
        };
        let all = [
            ("cuCtxGetDevice", 87),
            ("cuDevicePrimaryCtxRetain", 3),
            ("cuInit", 1),
            ("cuMemAlloc_v2", 1),
            ("cuMemGetInfo_v2", 2),
            ("cuStreamIsCapturing", 5),
        ];
        let said =
            "cuInit, cuDevicePrimaryCtxRetain ×3, cuMemAlloc_v2, cuMemGetInfo_v2 ×2, 92 queries";
        assert_eq!(calls(&made(&all)), said);
        assert_eq!(calls(&made(&[("cuGetProcAddress_v2", 1)])), "1 query");
    }
}
