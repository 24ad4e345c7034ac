//! What was seen, in words: the same in every format, which escapes them. No reader takes them for what they tell.

use crate::words::gpus as gpu_names;
use cuda_pitfalls_core::fact::{Change, Fact, RowFact, Token, words};
use cuda_pitfalls_core::observation::Class;
use cuda_pitfalls_core::text::counts::listed;

/// A change in a sentence: `2 cudaSetDevice: sees gpu0, context on gpu0`.
pub fn sentence(change: &Change) -> String {
    format!("{}: {}", about(change), words(change))
}

/// What a change is about: `2 cudaSetDevice`, `end`, or what a row of a survey says something of.
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

/// What was seen, one fact behind the other: `sees gpu0, context on gpu0`.
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
        Fact::Value(name, value) => format!("{name}={value}"),
        Fact::Initialised(Some(true)) => "driver initialised".to_owned(),
        Fact::Initialised(Some(false)) => "driver not initialised".to_owned(),
        Fact::Initialised(None) => "driver not asked".to_owned(),
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

/// What a row of a survey says something of, and what it says.
fn row(row: &RowFact) -> (&'static str, String) {
    let yes = |holds: &Option<bool>| holds.map_or("unknown", |holds| if holds { "yes" } else { "no" }).to_owned();
    let or = |text: &Option<String>, absent: &str| text.clone().unwrap_or_else(|| absent.to_owned());
    let listed = |gpus: &Option<Vec<u32>>| gpus.as_ref().map_or("unknown".to_owned(), |gpus| gpu_names(gpus, "none"));
    match row {
        RowFact::ReadsMask(holds) => ("reads the mask", yes(holds)),
        RowFact::CallsCuinit(holds) => ("calls cuInit", yes(holds)),
        RowFact::CalledAt(place) => ("at", or(place, "nowhere")),
        RowFact::ContextOn(gpus) => ("context on", listed(gpus)),
        RowFact::Returned(status) => ("returned", or(status, "nothing")),
        RowFact::CuInit(status) => ("cuInit", status.clone()),
        RowFact::Gpus(gpus) => ("GPUs", listed(gpus)),
        RowFact::AsPredicted(holds) => ("as the rule says", yes(holds)),
        RowFact::HasEffect(holds) => ("has an effect", yes(holds)),
        RowFact::ReadAt(call) => ("is read at", or(call, "unknown")),
        RowFact::Raises(kind) => ("raises", or(kind, "nothing")),
        RowFact::Left(end) => ("process ends with", or(end, "exit code 0")),
    }
}
