//! The recommended replacement for the code that a question warns of, and the versions.

use crate::{lines, listing, versions};
use cuda_pitfalls_answers::known::KnownScenario;
use cuda_pitfalls_calls::Effect;
use cuda_pitfalls_core::scenario::{Case, Scalar, Scenario, Step};

/// Returns the two orders; `None` without a trap or a control.
pub(super) fn compared(scenario: &Scenario) -> Option<(&Case, &Case)> {
    let cases = &scenario.instances.first()?.cases;
    let [trap, control] =
        ["trap", "control"].map(|name| cases.iter().find(|case| case.name == name));
    Some((trap?, control?))
}

/// Returns the lines of a case, in its own language.
pub(super) fn written(case: &Case) -> Vec<String> {
    let env = case
        .env
        .iter()
        .map(|(name, value)| format!("# started with {name}={value}"));
    // Labels are for checks, and a mark is only a moment to look: a program contains neither.
    let steps = case.steps.iter().filter(|step| !step.has(Effect::Marks));
    let steps: Vec<Step> = steps
        .map(|step| Step {
            label: step.call.clone(),
            ..step.clone()
        })
        .collect();
    let steps: Vec<String> = match &case.python {
        Some(_) => lines::program(&steps, None),
        None => steps.iter().map(listing::show::call).collect(),
    };
    env.chain(steps)
        .map(|line| replace_placeholders(&line))
        .collect()
}

/// Returns a line with the placeholders of a plan replaced by words.
fn replace_placeholders(line: &str) -> String {
    let mut words = line.replace("${gpus}", "number of GPUs");
    for place in 0..8 {
        words = words.replace(
            &format!("${{gpu{place}}}"),
            &format!("<UUID of gpu{place}>"),
        );
    }
    words
}

/// Returns the versions where the pitfall occurs, if an expectation depends on one, the version up to which it is
/// known, and the releases where the deciding line calls `cuInit`.
pub(super) fn version_lines(known: &KnownScenario, scenario: &Scenario) -> Vec<String> {
    let Some(instance) = scenario.instances.first() else {
        return Vec::new();
    };
    let is_conditional = instance.expect.iter().any(|entry| {
        versions::is_versioned(&entry.when)
            || !entry.when.packages.is_empty()
            || entry.when.compute_capability.is_some()
    });
    let mut found = Vec::new();
    if is_conditional {
        found = versions::lines(&instance.expect, Scalar::to_string);
        found.dedup();
        let newest = known
            .basis
            .as_ref()
            .map(|basis| basis.newest.join(", "))
            .filter(|newest| !newest.is_empty());
        let on = if known.releases.is_empty() {
            ""
        } else {
            " on a GPU"
        };
        found.extend(newest.map(|newest| format!("newer than {newest}: not measured{on}")));
    }
    found.extend(
        known
            .releases
            .iter()
            .map(|clause| format!("without a GPU, {clause}")),
    );
    found
}
