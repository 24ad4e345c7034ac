//! Observed changes as text, the same in every format; each format escapes it. No reader parses it.

use crate::words::gpus as gpu_names;
use cuda_pitfalls_core::fact::{Change, Fact, RowFact, Token, words};
use cuda_pitfalls_core::observation::Class;
use cuda_pitfalls_core::text::counts::listed;

/// Returns a change as a sentence: `2 cudaSetDevice: sees gpu0, context on gpu0`.
pub fn sentence(change: &Change) -> String {
    format!("{}: {}", about(change), words(change))
}

/// Returns the subject of a change: `2 cudaSetDevice`, `end`, or the label of a survey fact.
pub fn about(change: &Change) -> String {
    if change.step > 0 && !change.label.is_empty() {
        return format!("{} {}", change.step, change.label);
    }
    match change.facts.as_slice() {
        [Fact::Row(row)] => self::row(row).0.to_owned(),
        [Fact::End(_)] => "end".to_owned(),
        _ => change.label.clone(),
    }
}

/// Returns the observations, one after the other: `sees gpu0, context on gpu0`.
pub fn words(change: &Change) -> String {
    if let [Fact::End(end)] = change.facts.as_slice() {
        return format!("{end} after {} steps", change.step);
    }
    listed(change.facts.iter().map(fact), "")
}

fn fact(fact: &Fact) -> String {
    match fact {
        Fact::DidNotReturn => "did not return".to_owned(),
        Fact::Status(Token::Int(code)) => format!("status {code}"),
        Fact::Status(Token::Text(name)) => name.clone(),
        Fact::Value(name, value) if name.is_empty() => value.to_string(),
        Fact::Value(name, value) => format!("{name}={value}"),
        Fact::Initialised(Some(true)) => "driver initialized".to_owned(),
        Fact::Initialised(Some(false)) => "driver not initialized".to_owned(),
        Fact::Initialised(None) => "driver state not read".to_owned(),
        Fact::Visible(None) => "sees unknown".to_owned(),
        Fact::Visible(Some(gpus)) => format!("sees {}", words::gpus(gpus)),
        Fact::Contexts(None) => "contexts unknown".to_owned(),
        Fact::Contexts(Some(gpus)) if gpus.is_empty() => "no context".to_owned(),
        Fact::Contexts(Some(gpus)) => format!("context on {}", gpus.join(",")),
        Fact::Current(gpu) => format!("current {}", gpu.as_deref().unwrap_or("unknown")),
        Fact::Memory(gpu, class) => format!("{gpu} {}", class.map_or("not read", Class::name)),
        Fact::End(end) => end.clone(),
        Fact::Row(row) => self::row(row).1,
    }
}

/// Returns the label and the text of a survey fact.
fn row(row: &RowFact) -> (&'static str, String) {
    match row {
        RowFact::ReadsMask(holds) => ("reads the mask", yes_or_no(*holds)),
        RowFact::CallsCuinit(holds) => ("calls cuInit", yes_or_no(*holds)),
        RowFact::CalledAt(place) => ("at", text_or(place, "nowhere")),
        RowFact::ContextOn(gpus) => ("context on", gpu_list(gpus.as_deref())),
        RowFact::Returned(status) => ("returned", text_or(status, "nothing")),
        RowFact::CuInit(status) => ("cuInit", status.clone()),
        RowFact::Gpus(gpus) => ("GPUs", gpu_list(gpus.as_deref())),
        RowFact::AsPredicted(holds) => ("as the rule says", yes_or_no(*holds)),
        RowFact::HasEffect(holds) => ("has an effect", yes_or_no(*holds)),
        RowFact::ReadAt(call) => ("is read at", text_or(call, "unknown")),
        RowFact::Raises(kind) => ("raises", text_or(kind, "nothing")),
        RowFact::Left(end) => ("process ends with", text_or(end, "exit code 0")),
    }
}

fn yes_or_no(holds: Option<bool>) -> String {
    holds
        .map_or("unknown", |holds| if holds { "yes" } else { "no" })
        .to_owned()
}

fn text_or(text: &Option<String>, absent: &str) -> String {
    text.clone().unwrap_or_else(|| absent.to_owned())
}

fn gpu_list(gpus: Option<&[u32]>) -> String {
    gpus.map_or("unknown".to_owned(), |gpus| gpu_names(gpus, "none"))
}
