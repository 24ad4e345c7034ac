//! The steps of a case in words, the same in every format. Nothing is escaped here.

use cuda_pitfalls_core::fact::words;
use cuda_pitfalls_core::observation::StepObservation;
use cuda_pitfalls_core::plan::CasePlan;

/// What a step gave: its status and its values, an entry each.
pub(super) fn result_words(step: &StepObservation) -> Vec<String> {
    let mut lines = Vec::new();
    if !step.returned {
        lines.push("did not return".to_owned());
    }
    lines.extend(step.status.as_ref().map(words::status));
    let values = step.values.iter().chain(&step.varying);
    lines.extend(values.map(|(name, value)| format!("{name}={}", words::value(value))));
    lines
}

/// The environment that the worker was started with, as far as the case has a say in it.
pub(super) fn start(plan: &CasePlan) -> String {
    let mask = plan
        .mask
        .as_ref()
        .map(|gpus| format!("CUDA_VISIBLE_DEVICES={}", gpus.join(",")));
    let env = plan
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    mask.into_iter().chain(env).collect::<Vec<_>>().join(" ")
}

/// A list of GPUs; a question mark where the driver would not say.
pub(super) fn gpus(names: Option<&[String]>) -> String {
    match names {
        None => "?".to_owned(),
        Some([]) => "none".to_owned(),
        Some(names) => names.join(" "),
    }
}
