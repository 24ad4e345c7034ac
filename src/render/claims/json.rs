//! Claims as one document.

use serde_json::{Value, json};

use super::words;
use cuda_pitfalls_answers::claim::{
    Article, Assessment, ClaimAnswer, Evidence, EvidenceSource, FigureReadings, Ledger, Support, Weighed,
};
use cuda_pitfalls_core::verdict::Provenance;

/// The whole document.
pub(super) fn document(ledger: &Ledger, evidence: &Evidence) -> Value {
    let claims: Vec<Value> =
        ledger.claims().map(|(article, weighed)| claim(article, weighed, ledger.simulated)).collect();
    let reports = evidence.sources().iter().zip(words::sources(evidence)).map(|(source, (name, of))| {
        json!({
            "name": name,
            "machine": of,
            "provenance": provenance(source.report.provenance == Provenance::Simulated),
            "complete": source.report.complete,
        })
    });
    let exit = ledger.exit();
    json!({
        "claims": claims,
        "reports": reports.collect::<Vec<_>>(),
        "exit": { "code": exit.code(), "name": exit.name() },
    })
}

fn provenance(simulated: bool) -> &'static str {
    if simulated { "simulated" } else { "measured" }
}

fn claim(article: &Article, weighed: &Weighed, simulated: bool) -> Value {
    let claim = weighed.claim;
    let text = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    let (untestable, stated, condition, cause) = match &claim.row {
        Assessment::Untestable(why) => (text(why), Value::Null, Value::Null, Value::Null),
        Assessment::Tested(it) => (Value::Null, json!(it.stated.name()), text(&it.condition), text(&it.cause)),
    };
    json!({
        "article": article.name,
        "title": article.title,
        "source": article.source,
        "id": claim.id,
        "says": claim.says,
        "verdict": words::word(weighed, simulated),
        "row": stated,
        "held": weighed.held.map(words::held),
        "provenance": provenance(simulated),
        "untestable": untestable,
        "condition": condition,
        "cause": cause,
        "note": text(&claim.note),
        "cuda_calls_only": claim.is_of_calls_only(),
        "shown_by": supports(&weighed.shown_by),
        "cause_shown_by": supports(&weighed.cause_shown_by),
        "numbers": weighed.numbers.iter().map(number).collect::<Vec<_>>(),
    })
}

/// An entry per instance and report.
fn supports(supports: &[Support]) -> Vec<Value> {
    let answer = |support: &Support, answer: &ClaimAnswer| {
        json!({
            "scenario": answer.instance,
            "verdict": answer.verdict.as_ref().map(|verdict| verdict.kind.name()),
            "reason": answer.verdict.as_ref().and_then(|verdict| verdict.reason).map(|reason| reason.name()),
            "expected": words::needed(support),
            "fact": answer.fact.filter(|_| support.expects.fact.is_some()),
            "met": answer.is_conclusive() && !answer.contradicts,
            "machine": answer.place.as_ref().map(|place| &place.machine),
            "libcudart": answer.place.as_ref().and_then(|place| place.libcudart.as_ref()),
            "report": answer.place.as_ref().map(|place| &place.report),
        })
    };
    supports.iter().flat_map(|support| support.answers.iter().map(move |it| answer(support, it))).collect()
}

fn number(read: &FigureReadings) -> Value {
    let figure = read.figure;
    let reading = |place: &EvidenceSource, text: &str, value: &Value| {
        json!({
            "value": value,
            "text": text,
            "machine": place.machine,
            "libcudart": place.libcudart,
            "report": place.report,
        })
    };
    let readings = read.readings.iter().map(|it| reading(&it.place, &it.text, &it.value));
    json!({
        "scenario": figure.scenario,
        "case": figure.case,
        "at": if figure.at.is_empty() { Value::Null } else { json!(figure.at) },
        "fact": figure.fact.name(),
        "gpu": figure.gpu,
        "says": if figure.says.is_empty() { Value::Null } else { json!(figure.says) },
        "readings": readings.collect::<Vec<_>>(),
    })
}
