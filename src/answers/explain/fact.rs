//! What is known of a call, a line of Python, a variable or an error by itself: from the surveys and the tables.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::{self, Advice};
use super::query::Query;
use super::term::Term;
use crate::releases::LineReleases;
use crate::summary::{CallFacts, LineFacts, Summary, VariableFacts};

/// The most facts that fit above an answer.
const MOST: usize = 2;
/// The most ways to call one function, or to write one line, that are shown.
const MOST_OF_ONE: usize = 2;

/// What is known of one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "about", rename_all = "snake_case")]
#[schemars(rename = "Fact")]
pub enum NameFact {
    /// A call, from `survey calls`.
    Call(CallFacts),
    /// A line of Python, from `survey python`.
    Line(LineFacts),
    /// The same line in one release after another, from `survey python --releases`.
    Releases(LineReleases),
    /// An environment variable, from `survey env`.
    Variable(VariableFacts),
    /// A variable that nothing is known to read.
    Misspelt {
        /// The variable.
        name: String,
        /// The one that it is spelt nearly as.
        meant: String,
    },
    /// An error, from the tables of statuses.
    Error {
        /// The number.
        code: u32,
        /// What libcudart and libcuda call it.
        names: Vec<&'static str>,
        /// What programs print.
        says: Option<String>,
        /// What is known to help; null if nothing is.
        advice: Option<Advice>,
    },
    /// A message that is no status.
    Message(Advice),
}

impl NameFact {
    /// What is known to help against it.
    pub fn advice(&self) -> Option<&Advice> {
        match self {
            NameFact::Error { advice, .. } => advice.as_ref(),
            NameFact::Message(advice) => Some(advice),
            _ => None,
        }
    }

    /// The names under which `explain` knows an error or a message: `error/700`.
    pub fn id(&self) -> Option<String> {
        match self {
            NameFact::Error { code, .. } => Some(format!("error/{code}")),
            NameFact::Message(advice) => Some(advice.id.clone()),
            _ => None,
        }
    }
}

/// What is known of the names in a query. An error comes first, because it is what went wrong.
pub(super) fn facts(query: &Query, summary: &Summary) -> Vec<NameFact> {
    let names: Vec<&Term> =
        query.terms.iter().filter(|(term, times)| term.is_name && **times >= 1.0).map(|(term, _)| term).collect();
    let misspelt = query.misspelt.clone().into_iter();
    let mut found: Vec<NameFact> = misspelt.map(|(name, meant)| NameFact::Misspelt { name, meant }).collect();
    for code in error_codes(query) {
        let advice = error::advice(code).cloned();
        found.extend(error::described(code).map(|(names, says)| NameFact::Error { code, names, says, advice }));
    }
    found.extend(messages(query));
    let variables = summary.variables.iter().filter(|facts| is_named(&names, &facts.variable));
    found.extend(variables.cloned().map(NameFact::Variable));
    // A traceback names lines that are in order; what its error means is asked.
    if !(query.is_pasted && found.iter().any(|fact| fact.advice().is_some())) {
        let lines = named(&names, &summary.lines, |facts| &facts.id);
        let releases = match lines.first() {
            Some(first) => summary.releases.iter().filter(|facts| facts.line == first.id).collect(),
            None => named(&names, &summary.releases, |facts| &facts.line),
        };
        found.extend(lines.into_iter().cloned().map(NameFact::Line));
        found.extend(releases.into_iter().cloned().map(NameFact::Releases));
    }
    let mut calls: Vec<&CallFacts> = summary.calls.iter().filter(|facts| is_named(&names, facts.function())).collect();
    // The plain call comes before the ways to call it with other arguments.
    calls.sort_by_key(|facts| (facts.function().len(), facts.call.len()));
    calls.truncate(MOST_OF_ONE);
    if query.is_pasted {
        // A traceback names a dozen of them.
        calls.truncate(usize::from(found.is_empty()));
    }
    found.extend(calls.into_iter().cloned().map(NameFact::Call));
    found.truncate(MOST);
    found
}

/// The errors of a query. What has advice comes first: it is what people can act on.
fn error_codes(query: &Query) -> Vec<u32> {
    let mut codes: Vec<u32> = query.terms.keys().filter_map(Term::code).collect();
    let messages = error::messages_with_advice(&query.said).flat_map(|advice| advice.codes.iter().copied());
    codes.extend(messages);
    codes.sort_by_key(|code| (error::advice(*code).is_none(), *code));
    codes.dedup();
    codes
}

fn messages(query: &Query) -> impl Iterator<Item = NameFact> {
    error::messages_with_advice(&query.said)
        .filter(|advice| advice.codes.is_empty())
        .map(|advice| NameFact::Message(advice.clone()))
}

fn is_named(names: &[&Term], name: &str) -> bool {
    names.iter().any(|term| term.text.eq_ignore_ascii_case(name))
}

/// The lines with one of these names. If there are none, the only line whose name ends with one.
fn named<'a, T>(names: &[&Term], all: &'a [T], id: impl Fn(&T) -> &str) -> Vec<&'a T> {
    let mut found: Vec<&T> =
        all.iter().filter(|facts| names.iter().any(|name| name.text == function(id(facts)))).collect();
    if found.is_empty() {
        let mut ends: Vec<&T> = all.iter().collect();
        ends.retain(|facts| {
            let function = function(id(facts));
            names.iter().any(|name| name.text.len() > 5 && function.ends_with(&format!(".{}", name.text)))
        });
        if ends.len() == 1 {
            found = ends;
        }
    }
    found.sort_by_key(|facts| id(facts).len());
    // People mean the line without an argument, so it is shown alone.
    let first = found.first().map(|facts| id(facts));
    let is_whole = first.is_some_and(|first| names.iter().any(|name| first.eq_ignore_ascii_case(&name.text)));
    found.truncate(if is_whole { 1 } else { MOST_OF_ONE });
    found
}

/// The function of a line, in lower case. Several lines of one function differ behind a comma or a bracket.
fn function(line: &str) -> String {
    line.split([',', '(']).next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::embedded;

    fn about(words: &str) -> Vec<String> {
        let facts = facts(&Query::parse(words), &embedded());
        let name = |fact: &NameFact| match fact {
            NameFact::Call(facts) => facts.call.clone(),
            NameFact::Line(facts) => facts.id.clone(),
            NameFact::Releases(facts) => facts.line.clone(),
            NameFact::Variable(facts) => facts.variable.clone(),
            NameFact::Misspelt { name, meant } => format!("{name}, {meant}"),
            NameFact::Error { code, .. } => code.to_string(),
            NameFact::Message(advice) => advice.id.clone(),
        };
        facts.iter().map(name).collect()
    }

    #[test]
    fn names_of_each_kind_are_known() {
        assert_eq!(about("cudaGetErrorString"), ["cudaGetErrorString"]);
        assert_eq!(about("torch.cuda.mem_get_info")[0], "torch.cuda.mem_get_info");
        // On a GPU, and in one release after another.
        assert_eq!(about("accelerate.PartialState()"), ["accelerate.PartialState", "accelerate.PartialState"]);
        assert_eq!(about("CUDA_LAUNCH_BLOCKING"), ["CUDA_LAUNCH_BLOCKING"]);
        assert_eq!(about("CUDA_LAUNCH_BLOCKNG=1")[0], "CUDA_LAUNCH_BLOCKNG, CUDA_LAUNCH_BLOCKING");
        assert_eq!(about("CUDA_VISIBLE_DEVICE=2")[1], "CUDA_VISIBLE_DEVICES");
        assert_eq!(about("700"), ["700"]);
        assert_eq!(about("cudaErrorInitializationError"), ["3"]);
        assert!(about("memory on the wrong GPU").is_empty());
    }
}
