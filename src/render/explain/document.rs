//! The result of `explain` as one JSON document, which `explain --json` prints.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::instead::{compared, version_lines, written};
use crate::listing::show::command;
use cuda_pitfalls_answers::explain::{Advice, Certainty, Explanation, ScenarioAnswer};
use cuda_pitfalls_answers::known::{Basis, KnownEntry, Word};
use cuda_pitfalls_core::report::SchemaId;

const SCHEMA: &str = "cuda-pitfalls-explanation";

/// The answers to a text, and what is known of the names in it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct ExplanationDocument {
    /// Type and version of this document.
    schema: SchemaId,
    /// The query.
    words: String,
    /// The frameworks that the text names, as scenarios tag them.
    frameworks: Vec<String>,
    /// Certainty that the first answer is right. `named`, `said` and `advised` are exact matches; `closest` lists the
    /// answers to the most similar texts, which may not apply; `nothing` means that nothing in the text is about CUDA's
    /// start-up.
    certainty: Certainty,
    /// The id of the symptom that was queried; null otherwise.
    symptom: Option<String>,
    /// The import that was queried and was never measured; null otherwise.
    unmeasured_import: Option<String>,
    /// Variables that nothing is known to read, each with the known variable of similar spelling.
    misspelt: BTreeMap<String, String>,
    /// Known entries that the text contains or names, such as a call, a line, a variable, an error or a message.
    known: Vec<ExplainedEntry>,
    /// The scenarios that answer it, the likeliest first.
    answers: Vec<ExplainedScenario>,
    /// The ids of all entries and the names of all scenarios above in one order, the likeliest first.
    order: Vec<String>,
}

/// Something that the text contains or names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Known")]
struct ExplainedEntry {
    #[serde(flatten)]
    entry: KnownEntry,
    /// Known advice; null if unknown.
    advice: Option<Advice>,
}

/// A scenario that answers a text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Found")]
struct ExplainedScenario {
    /// The full name of the scenario.
    name: String,
    /// The question of the scenario.
    question: String,
    /// The answer in a word.
    word: Word,
    /// The answer in a sentence; empty if nothing was measured.
    answer: String,
    /// The workaround; empty if none is known.
    workaround: String,
    /// The language of `write`.
    language: LineLanguage,
    /// The lines to write instead; empty where the answer is no.
    write: Vec<String>,
    /// Versions with which the pitfall occurs, each as a phrase; empty if it does not depend on a version.
    versions: Vec<String>,
    /// The machines that the answer was measured on, as text.
    machines: Vec<String>,
    /// The runs that support the answer; null if nothing was measured.
    basis: Option<Basis>,
    /// The symptoms that the scenario is listed under, as `list --symptoms` names them.
    symptoms: Vec<String>,
    /// Links to places where users reported the question.
    sources: Vec<String>,
    /// The command that runs the scenario on this machine.
    run: String,
    /// Score of the answer: higher is better; scores of two texts cannot be compared.
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

/// Returns the explanation as one document.
pub fn document(explanation: &Explanation<'_>) -> ExplanationDocument {
    ExplanationDocument {
        schema: SchemaId::current(SCHEMA),
        words: explanation.query.words.clone(),
        frameworks: explanation
            .query
            .frameworks
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        certainty: explanation.certainty,
        symptom: explanation
            .asked_symptom()
            .and_then(|symptom| symptom.names.first().cloned()),
        unmeasured_import: explanation.unmeasured_import.clone(),
        misspelt: explanation.query.misspelt.clone(),
        known: explanation
            .entries()
            .map(|(entry, advice)| ExplainedEntry {
                entry: entry.clone(),
                advice: advice.cloned(),
            })
            .collect(),
        answers: explanation.answers.iter().filter_map(found).collect(),
        order: explanation.names(),
    }
}

fn found(answer: &ScenarioAnswer<'_>) -> Option<ExplainedScenario> {
    let (known, scenario) = (answer.known, answer.scenario()?);
    let control = match compared(&scenario) {
        Some((_, control)) if known.word != Word::No => Some(control),
        _ => None,
    };
    Some(ExplainedScenario {
        name: known.name.clone(),
        question: known.question.clone(),
        word: known.word,
        answer: known.answer.clone(),
        workaround: scenario.workaround.clone(),
        language: if scenario.has_python_lines() {
            LineLanguage::Python
        } else {
            LineLanguage::C
        },
        write: control.map(written).unwrap_or_default(),
        versions: version_lines(known, &scenario),
        machines: known.machines.clone(),
        basis: known.basis.clone(),
        symptoms: known.symptoms.clone(),
        run: command(&scenario),
        sources: scenario.sources,
        score: (answer.score * 100.0).round() / 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::explain::{Explainer, Query};
    use serde_json::json;

    #[test]
    fn the_document_has_what_the_screen_has() {
        let found = Explainer::embedded().explain(Query::parse("Does fork after cuInit work?"));
        let document = serde_json::to_value(super::document(&found)).unwrap();
        let first = &document["answers"][0];
        assert_eq!(
            (&first["name"], &first["word"]),
            (&json!("process/fork-after-cuinit"), &json!("yes"))
        );
        assert!(
            first["write"]
                .as_array()
                .is_some_and(|lines| !lines.is_empty())
        );
        assert!(
            first["machines"][0]
                .as_str()
                .is_some_and(|machine| machine.contains("NVIDIA H200")),
            "{first}"
        );
        assert_eq!(
            [Word::Depends, Word::Unmeasured].map(Word::name),
            ["some", "open"]
        );
    }
}
