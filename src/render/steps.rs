//! The steps of a case as text, the same in every format. Nothing is escaped here.

use cuda_pitfalls_core::fact::words;
use cuda_pitfalls_core::observation::StepObservation;
use cuda_pitfalls_core::plan::CasePlan;

/// Returns the result of a step: its status and its values, an entry each.
pub(super) fn result_words(step: &StepObservation) -> Vec<String> {
    let mut lines = Vec::new();
    if !step.returned {
        lines.push("did not return".to_owned());
    }
    lines.extend(step.status.as_ref().map(words::status));
    for (name, value) in step.values.iter().chain(&step.varying) {
        lines.push(format!("{name}={}", words::value(value)));
    }
    lines
}

/// Returns the environment that the worker was started with, as far as the case sets it.
pub(super) fn start(plan: &CasePlan) -> String {
    let mut words = Vec::new();
    if let Some(gpus) = &plan.mask {
        words.push(format!("CUDA_VISIBLE_DEVICES={}", gpus.join(",")));
    }
    for (name, value) in &plan.env {
        words.push(format!("{name}={value}"));
    }
    words.join(" ")
}

/// Returns a list of GPUs; a question mark if the driver did not report them.
pub(super) fn gpus(names: Option<&[String]>) -> String {
    match names {
        None => "?".to_owned(),
        Some([]) => "none".to_owned(),
        Some(names) => names.join(" "),
    }
}
