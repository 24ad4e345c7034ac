//! A question: its answer, the values that it holds for, the failures, and the workaround.

use super::instance::InstanceAnswer;
use super::values;
use crate::impact::Impact;
use crate::tally::Standing;
use crate::words::reason;
use crate::writer::terminal::{Screen, Style};
use cuda_pitfalls_core::scenario::is_workaround;
use cuda_pitfalls_core::text::counts::group_by_key;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::{display_columns, words};
use cuda_pitfalls_core::verdict::{Kind, Provenance};

/// Maximum width of an answer: on wider terminals a name would be too far from its question.
const WIDEST: usize = 140;
/// The columns of the answer's word, and of the word followed by `(sim)`.
const WORD: usize = 4;
const SIMULATED_WORD: usize = 10;

/// The ANSI code of text that is less important than its neighbor.
const DIM: &str = "2";

/// Returns `true` if a question is a yes/no question, judged by its first word.
pub fn is_yes_or_no(question: &str) -> bool {
    let words = [
        "Does", "Do", "Did", "Is", "Are", "Was", "Were", "Can", "Could", "Has", "Have", "Will",
        "Must", "May",
    ];
    question
        .split(' ')
        .next()
        .is_some_and(|first| words.contains(&first))
}

/// Returns the lines of one question from its instances' answers, failures first; empty if none is shown.
pub fn question(answers: &[InstanceAnswer], screen: impl Into<Screen>) -> String {
    let Screen { width, style } = screen.into().at_most(WIDEST);
    let mut out = String::new();
    let mut settled = Vec::new();
    for answer in answers {
        if answer.is_failure() {
            out += &failed(answer, width, style);
        } else if !answer.is_aside() {
            settled.push(answer);
        }
    }
    if let Some(group) = QuestionGroup::new(&settled, answers.len()) {
        out += &group.lines(width, style);
    }
    out
}

/// Returns the one-word answer: `yes` or `no` if it is a yes/no question, else the verdict's own words.
fn word(answer: &InstanceAnswer) -> &'static str {
    word_of(answer.verdict.kind, &answer.question)
}

/// Returns the word for a verdict on a question. Questions are worded so that `reproduced` is a yes.
pub(crate) fn word_of(kind: Kind, question: &str) -> &'static str {
    match (kind, is_yes_or_no(question)) {
        (Kind::Reproduced, true) => "yes",
        (Kind::Reproduced, false) => "reproduced",
        (Kind::NotReproduced, true) => "no",
        (Kind::NotReproduced, false) => "not reproduced",
        (Kind::Inconclusive | Kind::Skipped, _) => "?",
        (Kind::HarnessError, _) => "!",
    }
}

/// The parts of a block: a word, the question to its right, lines below, and the name at the right if there is room.
struct QuestionBlock<'a> {
    word: String,
    painted: String,
    question: &'a str,
    name: &'a str,
    below: Vec<String>,
}

impl QuestionBlock<'_> {
    fn lines(self, indent: usize, width: usize, style: Style) -> String {
        let room = width.saturating_sub(indent).max(1);
        let mut lines = words(&terminal(self.question), room);
        let question = lines.len();
        lines.extend(self.below);
        let name = terminal(
            self.name
                .rsplit_once('/')
                .map_or(self.name, |(_, tail)| tail),
        );
        // The name is at the right of the first line that has room for it, from the question's last
        // line on.
        let mut is_named = false;
        let mut head = format!(
            "{}{:2$}",
            self.painted,
            "",
            indent.saturating_sub(display_columns(&self.word))
        );
        let mut out = String::new();
        for (line, number) in lines.iter().zip(1..) {
            let fill = room.saturating_sub(display_columns(line) + display_columns(&name));
            out += &format!("{head}{line}");
            if number >= question && fill >= 2 && !is_named {
                out += &format!("{:fill$}{}", "", style.paint_words(DIM, &name));
                is_named = true;
            }
            out.push('\n');
            head = " ".repeat(indent);
        }
        if is_named {
            return out;
        }
        for piece in words(&name, room) {
            let fill = width.saturating_sub(display_columns(&piece)).max(indent);
            out += &format!("{:fill$}{}\n", "", style.paint_words(DIM, &piece));
        }
        out
    }
}

/// Returns lines below a question, indented and broken between words.
fn below(head: &str, text: &str, room: usize) -> Vec<String> {
    let indent = display_columns(head);
    let mut lines = words(&terminal(text), room.saturating_sub(indent).max(1));
    for (index, line) in lines.iter_mut().enumerate() {
        *line = if index == 0 {
            format!("{head}{line}")
        } else {
            format!("{:indent$}{line}", "")
        };
    }
    lines
}

/// Returns the column where questions begin: after the longest one-word answer, or after this word if it is longer.
fn question_indent(answer: &InstanceAnswer, word: &str) -> usize {
    let usual = if answer.verdict.provenance == Provenance::Simulated {
        SIMULATED_WORD
    } else {
        WORD
    };
    1 + usual.max(display_columns(word))
}

fn mark_simulated(answer: &InstanceAnswer, word: &str) -> String {
    if answer.verdict.provenance == Provenance::Simulated {
        format!("{word} (sim)")
    } else {
        word.to_owned()
    }
}

/// Returns the full text of an unexpected result, or of one that the harness failed to get.
fn failed(answer: &InstanceAnswer, width: usize, style: Style) -> String {
    let word = mark_simulated(answer, word(answer));
    let indent = question_indent(answer, &word);
    let room = width.saturating_sub(indent);
    let mut lines = Vec::new();
    if answer.standing() == Standing::Unexpected {
        let head = match &answer.libcudart {
            Some(libcudart) => format!("UNEXPECTED, with {libcudart}:"),
            None => "UNEXPECTED:".to_owned(),
        };
        lines.extend(below("", &head, room));
        for why in &answer.verdict.unexpected {
            lines.extend(below("  ", why, room));
        }
        lines.extend(below("  seen: ", &answer.verdict.detail, room));
    } else {
        lines.extend(below("HARNESS ERROR: ", &answer.verdict.detail, room));
    }
    for (head, detail) in &answer.details {
        let head = format!("  {}", terminal(head));
        // A name that takes the entire line leaves no room after it.
        if display_columns(&head) * 2 <= room {
            lines.extend(below(&head, detail, room));
        } else {
            lines.extend(below("  ", &format!("{head}{detail}"), room));
        }
    }
    if answer.verdict.kind == Kind::Reproduced {
        lines.extend(workaround(answer, room));
    }
    let painted = style.paint_words(answer.standing().ansi_color(), &word);
    let InstanceAnswer { question, name, .. } = answer;
    QuestionBlock {
        word,
        painted,
        question,
        name,
        below: lines,
    }
    .lines(indent, width, style)
}

/// The expected answers of one question, which are printed together.
struct QuestionGroup<'a> {
    first: &'a InstanceAnswer,
    yes: Vec<&'a InstanceAnswer>,
    no: Vec<&'a InstanceAnswer>,
    /// Instances without a conclusion.
    open: Vec<&'a InstanceAnswer>,
    /// Number of instances of the question, including those that are printed elsewhere.
    instances: usize,
    has_several_runtimes: bool,
    impact: Impact,
}

impl<'a> QuestionGroup<'a> {
    fn new(answers: &[&'a InstanceAnswer], instances: usize) -> Option<QuestionGroup<'a>> {
        let first = *answers.first()?;
        let mut group = QuestionGroup {
            first,
            yes: Vec::new(),
            no: Vec::new(),
            open: Vec::new(),
            instances,
            has_several_runtimes: false,
            impact: Impact::new(first.verdict.kind, &first.workaround),
        };
        for answer in answers {
            match answer.verdict.kind {
                Kind::Reproduced => group.yes.push(answer),
                Kind::NotReproduced => group.no.push(answer),
                Kind::Inconclusive => group.open.push(answer),
                Kind::Skipped | Kind::HarnessError => {}
            }
            let impact = Impact::new(answer.verdict.kind, &answer.workaround);
            group.impact = group.impact.min(impact);
            group.has_several_runtimes |= answer.libcudart != first.libcudart;
        }
        Some(group)
    }

    /// Returns the word for all of the answers.
    fn word(&self) -> &'static str {
        match (self.yes.first(), self.no.first()) {
            (Some(_), Some(_)) => "some",
            (Some(answer), None) | (None, Some(answer)) => word(answer),
            (None, None) => word(self.first),
        }
    }

    /// Returns `true` if there are several instances and all have the same answer.
    fn is_alike(&self) -> bool {
        let all = self.instances;
        all > 1 && (self.yes.len() == all || self.no.len() == all)
    }

    /// Returns `true` if the answer must list the values of the instances that it belongs to.
    fn has_values(&self) -> bool {
        self.has_several_runtimes || self.instances > 1
    }

    fn lines(&self, width: usize, style: Style) -> String {
        let word = mark_simulated(self.first, self.word());
        let indent = question_indent(self.first, &word);
        let room = width.saturating_sub(indent);
        let mut below_it = self.value_lines(room);
        below_it.extend(self.open_lines(room));
        if let Some(rate) = self.yes.iter().find_map(|answer| answer.rate.as_ref()) {
            below_it.extend(below("", rate, room));
        }
        if let Some(answer) = self.yes.first() {
            below_it.extend(workaround(answer, room));
        }
        let (question, name) = self.question_and_name(room);
        QuestionBlock {
            painted: style.paint_words(self.impact.ansi_color(), &word),
            word,
            question: &question,
            name: &name,
            below: below_it,
        }
        .lines(indent, width, style)
    }

    /// Returns the values with the answer yes and those with the answer no, unless they are obvious.
    fn value_lines(&self, room: usize) -> Vec<String> {
        if !self.has_values() || self.is_alike() {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for answers in [&self.yes, &self.no] {
            let Some(first) = answers.first() else {
                continue;
            };
            let is_only = answers.len() == self.yes.len() + self.no.len() + self.open.len();
            let head = if is_only {
                "for".to_owned()
            } else {
                format!("{} for", word(first))
            };
            parts.push((head, self.labels(answers)));
        }
        if parts.is_empty() {
            return Vec::new();
        }
        words(&values::line(&parts, room), room)
    }

    /// Returns the instances without a conclusion, by reason.
    fn open_lines(&self, room: usize) -> Vec<String> {
        let mut whys = Vec::new();
        for answer in &self.open {
            let why = match answer.verdict.reason {
                Some(why) => reason(why).to_owned(),
                None => answer.verdict.detail.clone(),
            };
            whys.push((why, *answer));
        }
        let mut lines = Vec::new();
        for (why, answers) in group_by_key(whys) {
            let head = if self.has_values() {
                let parts = [("inconclusive for".to_owned(), self.labels(&answers))];
                values::line(&parts, room)
            } else {
                "inconclusive".to_owned()
            };
            lines.extend(words(&format!("{head}: {}", terminal(&why)), room));
        }
        lines
    }

    /// Returns the values of each answer, and its libcudart if the answers have several.
    fn labels(&self, answers: &[&InstanceAnswer]) -> Vec<String> {
        let mut labels = Vec::new();
        for answer in answers {
            labels.push(match &answer.libcudart {
                Some(libcudart) if self.has_several_runtimes && answer.values.is_empty() => {
                    libcudart.clone()
                }
                Some(libcudart) if self.has_several_runtimes => {
                    format!("{} ({libcudart})", answer.values)
                }
                _ => answer.values.clone(),
            });
        }
        labels
    }

    /// Returns the question and the name. The values of a single instance are added to its question if there is room,
    /// else to its name.
    fn question_and_name(&self, room: usize) -> (String, String) {
        let InstanceAnswer {
            scenario,
            name,
            question,
            ..
        } = self.first;
        if self.is_alike() {
            return (
                question.clone(),
                format!("{scenario} (all {})", self.instances),
            );
        }
        if self.instances > 1 {
            return (question.clone(), scenario.clone());
        }
        let values = name.strip_prefix(scenario.as_str()).unwrap_or_default();
        let with_values = format!("{question} {values}");
        if values.is_empty() || display_columns(&terminal(&with_values)) > room {
            return (question.clone(), name.clone());
        }
        (with_values, scenario.clone())
    }
}

/// Returns the order or call that works, if one is needed.
fn workaround(shown: &InstanceAnswer, room: usize) -> Vec<String> {
    if is_workaround(&shown.workaround) {
        below("→ ", &shown.workaround, room)
    } else {
        Vec::new()
    }
}
