//! The condition of a check, as an expression of a language.

use cuda_pitfalls_calls::CallLibrary;

use super::effect::{EffectQuestion, GpuSet, Growth, GrowthBound, Since, gpu_named, status};
use super::error::ExportError;
use super::language::Language;
use super::program::Reproducer;
use cuda_pitfalls_core::scenario::Operand;

/// Type of a value that a step wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenKind {
    Number,
    Text,
    Handle,
    /// A number that is an expression, not a variable.
    Part,
}

pub(super) fn value_condition(
    language: Language,
    value: &str,
    kind: WrittenKind,
    sign: &str,
    operand: &Operand,
) -> Result<String, ExportError> {
    let other = match operand {
        Operand::Int(other) => other.to_string(),
        Operand::Value { label, name } => language.form(
            ["(long long)$0", "$0"],
            &[&language.variable(&format!("{label}_{name}"))],
        ),
        Operand::Text(text) if text == "${gpus}" => "gpu_count()".to_string(),
        Operand::Text(text) => return text_condition(language, value, kind, sign, text),
    };
    if language == Language::C && kind == WrittenKind::Text {
        return Ok(format!("atoll({value}) {sign} {other}"));
    }
    Ok(format!("{value} {sign} {other}"))
}

fn text_condition(
    language: Language,
    value: &str,
    kind: WrittenKind,
    sign: &str,
    text: &str,
) -> Result<String, ExportError> {
    if kind == WrittenKind::Handle && matches!(text, "bound" | "NULL") {
        let is_null = (text == "NULL") == (sign == "==");
        let sign = if is_null { "==" } else { "!=" };
        return Ok(format!("{value} {sign} 0"));
    }
    let is_text = kind == WrittenKind::Text || language == Language::Python;
    if !is_text || !matches!(sign, "==" | "!=") {
        return Err(ExportError(format!(
            "its effect compares a number with `{text}`"
        )));
    }
    let other = match gpu_named(text) {
        Some(gpu) => format!("uuid_of({gpu})"),
        None => language.string_literal(text),
    };
    let forms = ["strcmp($0, $2) $1 0", "str($0) $1 $2"];
    Ok(language.form(forms, &[value, sign, &other]))
}

/// Returns the condition of a check of the driver's state or memory, or `None` for other checks. `before` is the
/// variable with the memory before the step.
pub(super) fn state(
    language: Language,
    program: &Reproducer<'_>,
    question: &EffectQuestion<'_>,
    before: &str,
) -> Option<String> {
    Some(match question {
        EffectQuestion::Status { .. } | EffectQuestion::Value { .. } => return None,
        EffectQuestion::Visible {
            gpus: GpuSet::All, ..
        } => language
            .pick(["DEVICES == gpu_count()", "len(visible()) == gpu_count()"])
            .to_string(),
        EffectQuestion::Visible { gpus, .. } => language.shows(gpus.named()),
        EffectQuestion::Current { gpu, .. } => language.form(
            ["CURRENT == $0", "current() == $0"],
            &[&gpu.map_or(-1, i64::from).to_string()],
        ),
        EffectQuestion::Initialised { yes, .. } => {
            let forms = [
                "DEVICES $0 -1",
                "load(\"libcuda.so.1\").cuDeviceGetCount(byref(c_int())) $0 3",
            ];
            language.form(forms, &[if *yes { "!=" } else { "==" }])
        }
        EffectQuestion::Contexts { .. } | EffectQuestion::Memory { .. } => {
            let growth = question.memory_growth(program.gpus_read()).into_iter();
            let each = growth.map(|growth| growth_condition(language, &growth, before));
            each.collect::<Vec<_>>()
                .join(language.pick([" && ", " and "]))
        }
    })
}

fn bound_text(language: Language, bound: GrowthBound) -> String {
    match bound {
        GrowthBound::These(bytes) => language.size(bytes),
        GrowthBound::Any => "0".to_string(),
        GrowthBound::Noise => "NOISE".to_string(),
        GrowthBound::BelowNoise => "-NOISE".to_string(),
        GrowthBound::AboveNoise => "NOISE + 1".to_string(),
        GrowthBound::Context => "CONTEXT".to_string(),
        GrowthBound::BelowContext => "CONTEXT - 1".to_string(),
        GrowthBound::Allocation => language.pick(["cost * 5 / 4", "cost * 5 // 4"]).to_string(),
    }
}

/// Returns the condition that the memory of a GPU has grown by the expected amount.
fn growth_condition(
    language: Language,
    Growth {
        gpu,
        since,
        least,
        most,
    }: &Growth,
    before: &str,
) -> String {
    let since = if *since == Since::Start {
        "start"
    } else {
        before
    };
    let more = format!("used({gpu}) - {since}[{gpu}]");
    let [low, high] = [least, most].map(|bound| bound_text(language, *bound));
    let forms = match (least, most) {
        (GrowthBound::These(least), GrowthBound::These(most)) if least == most => ["$0 == $1"; 2],
        (GrowthBound::Any, _) => ["$0 <= $2"; 2],
        (_, GrowthBound::Any) => ["$0 >= $1"; 2],
        _ => ["$0 >= $1 && $0 <= $2", "$1 <= $0 <= $2"],
    };
    language.form(forms, &[&more, &low, &high])
}

/// Returns the C condition that the status of a call, in this variable, is one of these.
pub(super) fn status_condition(
    library: CallLibrary,
    variable: &str,
    names: &[String],
) -> Result<String, ExportError> {
    let mut all = Vec::new();
    for name in names {
        let Some((owner, code)) = status(name) else {
            return Err(ExportError(format!(
                "its effect is the status `{name}`, which has no number"
            )));
        };
        // A call of another library does not return a status of this one.
        if owner == library {
            all.push(format!("{variable} == {code}"));
        }
    }
    if all.is_empty() {
        return Ok("0".to_string());
    }
    Ok(all.join(" || "))
}
