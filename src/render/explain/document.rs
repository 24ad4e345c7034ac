//! What `explain` found as one JSON document, which `explain --json` prints.

use schemars::JsonSchema;
use serde::Serialize;

use super::instead::{compared, since, written};
use crate::listing::show::command;
use cuda_pitfalls_answers::explain::{Certainty, Explanation, NameFact, ScenarioAnswer, Word, word};
use cuda_pitfalls_answers::summary::Basis;
use cuda_pitfalls_core::report::SchemaId;

const SCHEMA: &str = "cuda-pitfalls-explanation";

/// The answers to a text, and what is known of the names in it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct ExplanationDocument {
    /// Which document this is.
    schema: SchemaId,
    /// The words that were looked up.
    words: String,
    /// The frameworks that the text names, as scenarios tag them.
    frameworks: Vec<String>,
    /// How sure it is that the first answer is right. With `known` or `said` it is claimed; `nothing` means that nothing
    /// in the text is about CUDA's start-up.
    certainty: Certainty,
    /// The id of the symptom that was asked by its name; null elsewhere.
    symptom: Option<String>,
    /// What is known of each call, line, variable, error or message that the text names.
    known: Vec<NameFact>,
    /// The scenarios that answer it, the likeliest first.
    answers: Vec<ExplainedScenario>,
}

/// One scenario that answers a text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Found")]
struct ExplainedScenario {
    /// The full name of the scenario.
    name: String,
    /// What it asks.
    question: String,
    /// The answer in a word.
    word: Word,
    /// The answer in a sentence; empty where nothing was measured.
    answer: String,
    /// What to do instead; empty if there is nothing.
    workaround: String,
    /// The language of `write`.
    language: LineLanguage,
    /// The lines to write instead; empty where the answer is no.
    write: Vec<String>,
    /// With which versions the pitfall shows, each a phrase; empty if it does not depend on one.
    versions: Vec<String>,
    /// The machines that measured the answer, in words.
    machines: Vec<String>,
    /// The runs that the answer rests on; null where nothing was measured.
    basis: Option<Basis>,
    /// The symptoms that it is listed under, as `list --symptoms` names them.
    symptoms: Vec<String>,
    /// Where people asked the question, as links.
    sources: Vec<String>,
    /// The command that asks this machine.
    run: String,
    /// More is better; scores of two texts cannot be compared.
    score: f64,
}

/// The language of the lines of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Language")]
enum LineLanguage {
    /// Calls, as C names them.
    C,
    /// Lines of Python.
    Python,
}

/// The explanation as one document.
pub fn document(explanation: &Explanation<'_>) -> ExplanationDocument {
    ExplanationDocument {
        schema: SchemaId::current(SCHEMA),
        words: explanation.query.words.clone(),
        frameworks: explanation.query.frameworks.iter().map(|name| (*name).to_owned()).collect(),
        certainty: explanation.certainty,
        symptom: explanation.symptom.map(|symptom| symptom.id.clone()),
        known: explanation.facts.clone(),
        answers: explanation.answers.iter().map(found).collect(),
    }
}

fn found(answer: &ScenarioAnswer<'_>) -> ExplainedScenario {
    let scenario = answer.scenario;
    let word = word(scenario);
    let control = compared(scenario).map(|(_, control)| control).filter(|_| word != Word::No);
    ExplainedScenario {
        name: scenario.name.clone(),
        question: scenario.question.clone(),
        word,
        answer: scenario.answer.clone(),
        workaround: scenario.workaround.clone(),
        language: if scenario.has_python_lines() { LineLanguage::Python } else { LineLanguage::C },
        write: control.map(written).unwrap_or_default(),
        versions: since(answer),
        machines: answer.machines.clone(),
        basis: answer.basis.cloned(),
        symptoms: scenario.symptoms.clone(),
        sources: scenario.sources.clone(),
        run: command(scenario),
        score: (answer.score * 100.0).round() / 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::explain::{Explainer, Query};
    use cuda_pitfalls_answers::summary;
    use cuda_pitfalls_core::catalogue;
    use serde_json::json;

    #[test]
    fn the_document_has_what_the_screen_has() {
        let (scenarios, summary) = (catalogue::select(&[]).unwrap(), summary::embedded());
        let explainer = Explainer::new(&scenarios, &summary);
        let found = explainer.explain(Query::parse("Does fork after cuInit work?"));
        let document = serde_json::to_value(super::document(&found)).unwrap();
        let first = &document["answers"][0];
        assert_eq!((&first["name"], &first["word"]), (&json!("process/fork-after-cuinit"), &json!("yes")));
        assert!(first["write"].as_array().is_some_and(|lines| !lines.is_empty()));
        assert!(first["machines"][0].as_str().is_some_and(|machine| machine.contains("NVIDIA H200")), "{first}");
        assert_eq!([Word::Depends, Word::Unmeasured].map(Word::name), ["some", "open"]);
    }
}
