//! What a reader of a plain reproducer looks for in its output.

use cuda_pitfalls_core::scenario::Operand;

use super::super::Refusal;
use super::super::c::status;
use super::super::program::EffectQuestion;

/// All questions in one sentence, without its full stop.
///
/// # Errors
/// A question that the output of the calls does not answer.
pub(super) fn sentence(questions: &[EffectQuestion<'_>]) -> Result<String, Refusal> {
    let told = questions.iter().filter(|question| !is_told_by_contexts(question, questions));
    let parts: Vec<String> = told.map(part).collect::<Result<_, _>>()?;
    Ok(if parts.is_empty() { "what the calls return".to_string() } else { parts.join("; ") })
}

/// Whether the question about contexts says the same: one that grew memory by a context, on a GPU that it names.
fn is_told_by_contexts(question: &EffectQuestion<'_>, all: &[EffectQuestion<'_>]) -> bool {
    let EffectQuestion::Memory { at: label, gpu: Some(gpu), classes, .. } = question else { return false };
    let names = |gpus: &str| gpus == "all" || gpus.split(',').any(|name| name == format!("gpu{gpu}"));
    let is_same = |other: &EffectQuestion<'_>| matches!(other, EffectQuestion::Contexts { at, gpus } if at == label && names(gpus));
    classes.len() == 1 && classes.iter().all(|class| *class == "context") && all.iter().any(is_same)
}

fn part(question: &EffectQuestion<'_>) -> Result<String, Refusal> {
    Ok(match question {
        EffectQuestion::Status { at, names } => {
            let names: Vec<String> = names.iter().map(|name| status_words(name)).collect();
            format!("`{at}` {}", names.join(" or "))
        }
        EffectQuestion::Value { at, name, order, operand } => {
            let order = order_words(order);
            let other = match operand {
                Operand::Int(value) => value.to_string(),
                Operand::Text(text) if text == "${gpus}" => "the number of GPUs of the machine".to_string(),
                Operand::Text(text) if text.contains("${") => {
                    return Err(Refusal("its effect names a GPU by its UUID".to_string()));
                }
                Operand::Text(text) => format!("`{text}`"),
                Operand::Value { label, name } => format!("the {name} of `{label}`"),
            };
            format!("{name} of `{at}` is {order}{other}")
        }
        EffectQuestion::Contexts { at, gpus } => {
            let on = match gpus.as_str() {
                "" => "on no GPU".to_string(),
                "all" => "on every GPU".to_string(),
                named => format!("on {} alone", named.replace("gpu", "GPU ").replace(',', " and ")),
            };
            format!("after `{at}`, memory in use has grown by a context (hundreds of MiB) {on}")
        }
        EffectQuestion::Memory { at, gpu, classes, .. } => {
            let classes: Vec<&str> = classes.iter().map(|class| class_words(class)).collect();
            format!("after `{at}`, memory in use of {} has grown by {}", gpu_words(*gpu), classes.join(" or "))
        }
        EffectQuestion::Bytes { at, grown, gpu, order, bytes, .. } => {
            let since = if *grown { "by that step" } else { "since the start" };
            let order = order_words(order);
            format!("after `{at}`, memory in use of {} has grown {since} by {order}{bytes} bytes", gpu_words(*gpu))
        }
        EffectQuestion::End { how } => format!("the process ends with {how}"),
        EffectQuestion::Visible { .. } => return Err(unseen("which GPUs are visible")),
        EffectQuestion::Current { .. } => return Err(unseen("which GPU has the current context")),
        EffectQuestion::Initialised { .. } => return Err(unseen("whether the driver is initialised")),
    })
}

fn unseen(what: &str) -> Refusal {
    Refusal(format!("its effect is {what}, which the harness asks between the calls"))
}

fn status_words(name: &str) -> String {
    match (name, status(name)) {
        ("OK", _) => "raises nothing".to_string(),
        (name, Some((_, code))) => format!("returns {code} ({name})"),
        (name, None) => format!("raises {name}"),
    }
}

fn order_words(order: &str) -> &'static str {
    match order {
        "ne" => "not ",
        "ge" => "at least ",
        "le" => "at most ",
        "gt" => "more than ",
        "lt" => "less than ",
        _ => "",
    }
}

fn class_words(class: &str) -> &'static str {
    match class {
        "none" => "nothing",
        "touch" => "a few MiB (the driver's initialisation)",
        "context" => "a context (hundreds of MiB)",
        _ => "a context and an allocation",
    }
}

fn gpu_words(gpu: Option<u32>) -> String {
    gpu.map_or_else(|| "every other GPU".to_string(), |gpu| format!("GPU {gpu}"))
}
