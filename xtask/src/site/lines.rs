//! The lines of Python that were asked: a page for each framework, with a place for each line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cuda_pitfalls::explain::{Explainer, Query, word};
use cuda_pitfalls::releases::Matrix;
use cuda_pitfalls::summary::LineFacts;
use cuda_pitfalls::text::units;
use serde::Deserialize;

use super::matrix;
use super::{Draft, Sources, write};
use crate::TaskError;
use crate::page::prose;

/// A line of `scenarios/surveys/python.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AskedLine {
    /// Its name: `torch.cuda.is_available`.
    pub id: String,
    /// Its group: `torch`.
    pub framework: String,
    /// The lines that run before it.
    #[serde(default)]
    pub before: Vec<String>,
    /// The line.
    pub ask: String,
    /// Why it is asked.
    #[serde(default)]
    pub note: String,
}

/// What a line does, and how it was asked.
type Known<'a> = (&'a LineFacts, Option<&'a AskedLine>);

#[derive(Deserialize)]
struct LineFile {
    row: Vec<AskedLine>,
}

impl AskedLine {
    /// The lines of `scenarios/surveys/python.toml`.
    ///
    /// # Errors
    /// The file is not valid.
    pub fn parse(source: &str) -> Result<Vec<AskedLine>, TaskError> {
        let file: LineFile =
            toml::from_str(source).map_err(|error| format!("scenarios/surveys/python.toml: {error}"))?;
        Ok(file.row)
    }
}

/// The index, and a page for each framework.
pub(super) fn pages(sources: &Sources, explainer: &Explainer<'_>) -> Vec<Draft> {
    let mut frameworks: Vec<(&str, Vec<Known<'_>>)> = Vec::new();
    for facts in &sources.summary.lines {
        let asked = sources.lines.iter().find(|line| line.id == facts.id);
        let framework = asked.map_or("other", |line| line.framework.as_str());
        match frameworks.iter_mut().find(|(name, _)| *name == framework) {
            Some((_, lines)) => lines.push((facts, asked)),
            None => frameworks.push((framework, vec![(facts, asked)])),
        }
    }
    if frameworks.is_empty() {
        return Vec::new();
    }
    let rests: Vec<String> =
        sources.evidence.keys().filter(|name| name.starts_with("survey-python")).cloned().collect();
    let mut index = "# Lines of Python\n\nEach line ran in a fresh interpreter. Its page says whether it reads \
                     `CUDA_VISIBLE_DEVICES`, where it calls `cuInit`, on which GPUs it makes a context, and which \
                     questions it answers. [The survey](/surveys/python.md) has all of them in one table.\n"
        .to_owned();
    let mut pages = Vec::new();
    for (framework, lines) in frameworks {
        let path = format!("lines/{}.md", write::slug(framework));
        let anchors = write::slugs(lines.iter().map(|(facts, _)| facts.id.as_str()));
        let mut text = format!("# Lines of {}\n\n", write::plain(framework));
        let _ = writeln!(index, "\n## {} {{#{}}}\n", write::plain(framework), write::slug(framework));
        for ((facts, asked), anchor) in lines.into_iter().zip(anchors) {
            let reads = mask(facts.reads_mask);
            let _ = writeln!(index, "- [{}](/{path}#{anchor}): {reads}", write::plain(&facts.id));
            line(&mut text, facts, asked, &anchor, &sources.matrix);
            answers(&mut text, &facts.id, explainer);
        }
        let title = format!("Lines of {framework}");
        pages.push(Draft { path, title, text, rests: rests.iter().cloned().collect(), ..Draft::default() });
    }
    let rests = rests.into_iter().collect();
    let index = Draft {
        path: "lines/index.md".into(),
        title: "Lines of Python".into(),
        text: index,
        rests,
        ..Draft::default()
    };
    [vec![index], pages].concat()
}

/// What is known of a line.
fn line(out: &mut String, facts: &LineFacts, asked: Option<&AskedLine>, anchor: &str, matrix: &Matrix) {
    write::heading(out, 2, &facts.id, anchor);
    if let Some(asked) = asked {
        let before = asked.before.iter().map(|line| format!("{line}\n"));
        write::block(out, "python", &format!("{}{}", before.collect::<String>(), asked.ask));
        if !asked.note.is_empty() {
            let _ = writeln!(out, "{}\n", prose(&asked.note));
        }
    }
    out.push_str("| asked | found |\n| --- | --- |\n");
    let at = facts.at.as_ref().map(|at| format!(", at {}", write::code(at))).unwrap_or_default();
    let _ = writeln!(out, "| reads the mask | {}{at} |", mask(facts.reads_mask));
    let _ = writeln!(out, "| context on | {} |", gpus(facts.context_on.as_deref()));
    if let Some(used) = facts.used_bytes.as_ref().filter(|used| used.iter().any(|bytes| *bytes != 0)) {
        let used: Vec<String> = used.iter().map(|bytes| units::delta(*bytes)).collect();
        let _ = writeln!(out, "| memory of each GPU | {} |", used.join(", "));
    }
    if let Some(raised) = &facts.raised {
        let _ = writeln!(out, "| raises | {} |", write::code(raised));
    }
    let _ = writeln!(out, "| measured | {} |\n", write::plain(&on(&facts.versions, &facts.on)));
    for (name, path) in matrix::places(matrix, &facts.id) {
        let _ = writeln!(out, "In other versions: [{}](/{path}).\n", write::plain(&name));
    }
}

fn on(versions: &BTreeMap<String, String>, on: &str) -> String {
    let versions: String = versions.iter().map(|(name, version)| format!("{name} {version}; ")).collect();
    format!("{versions}{on}")
}

/// Whether the mask is read, in a word.
pub(super) fn mask(reads: Option<bool>) -> &'static str {
    match reads {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known: what came before it had read it",
    }
}

fn gpus(gpus: Option<&[u32]>) -> String {
    match gpus {
        Some([]) => "none".to_owned(),
        Some(gpus) => format!("GPU {}", gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
        None => "not known".to_owned(),
    }
}

/// The questions that `explain` answers a call or a line with.
pub(super) fn answers(out: &mut String, name: &str, explainer: &Explainer<'_>) {
    let found = explainer.explain(Query::of(name)).answers;
    if found.is_empty() {
        return;
    }
    out.push_str("Questions about it:\n\n");
    for answer in found {
        let (name, question) = (&answer.scenario.name, prose(&answer.scenario.question));
        let _ = writeln!(out, "- **{}** [{question}](/pitfalls/{name}.md)", word(answer.scenario).name());
    }
}
