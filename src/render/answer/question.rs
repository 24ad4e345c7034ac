//! One question: its answer, for which values, what failed, and the workaround.

use super::instance::InstanceAnswer;
use super::values;
use crate::impact::Impact;
use crate::tally::Standing;
use crate::words::reason;
use crate::writer::terminal::Style;
use cuda_pitfalls_core::scenario::is_workaround;
use cuda_pitfalls_core::text::counts::group_by_key;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::{display_columns, words};
use cuda_pitfalls_core::verdict::{Kind, Provenance};

/// The widest that an answer is laid out: on wider terminals a name would stand too far from its question.
const WIDEST: usize = 140;
/// The columns of the answer's word, and of the word with `(sim)` behind it.
const WORD: usize = 4;
const SIMULATED_WORD: usize = 10;

/// The ANSI code of what stands beside something more important.
const DIM: &str = "2";

/// Whether a question can be answered by yes or no: by its first word.
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

/// The lines of one question from its instances' answers, failures first; empty where there is nothing to tell.
pub fn question(answers: &[InstanceAnswer], width: usize, style: Style) -> String {
    let width = width.min(WIDEST);
    let mut out = String::new();
    for failure in answers.iter().filter(|answer| answer.is_failure()) {
        out.push_str(&failed(failure, width, style));
    }
    let rest: Vec<&InstanceAnswer> = answers
        .iter()
        .filter(|answer| !answer.is_failure() && !answer.is_aside())
        .collect();
    if let Some(first) = rest.first() {
        out.push_str(&answered(first, &rest, answers.len(), width, style));
    }
    out
}

/// What answers the question: `yes` and `no` where it is a question of that kind, else the verdict's own words.
fn word(answer: &InstanceAnswer) -> &'static str {
    word_of(answer.verdict.kind, &answer.question)
}

/// The word for a verdict on a question. Questions are worded so that `reproduced` is a yes.
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

/// A block in the making: a word, the question beside it, lines below, and the name at the right where there is room.
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
        // The name stands at the right of the first line that has room for it, from the question's last line on.
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
        for piece in words(&name, room).iter().filter(|_| !is_named) {
            let fill = width.saturating_sub(display_columns(piece)).max(indent);
            out += &format!("{:fill$}{}\n", "", style.paint_words(DIM, piece));
        }
        out
    }
}

/// Lines below a question, behind its indentation, broken between words.
fn below(head: &str, text: &str, room: usize) -> Vec<String> {
    let lines = words(
        &terminal(text),
        room.saturating_sub(display_columns(head)).max(1),
    );
    let heads = std::iter::once(head.to_owned())
        .chain(std::iter::repeat(" ".repeat(display_columns(head))));
    heads.zip(lines).map(|(head, line)| head + &line).collect()
}

/// Where questions begin: behind the longest word of an answer, or behind this one if it is longer.
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

/// A result that is not the expected one, or that the harness failed to get, in full.
fn failed(answer: &InstanceAnswer, width: usize, style: Style) -> String {
    let word = mark_simulated(answer, word(answer));
    let indent = question_indent(answer, &word);
    let room = width.saturating_sub(indent);
    let mut lines = Vec::new();
    if answer.standing() == Standing::Unexpected {
        let on = answer
            .libcudart
            .as_ref()
            .map(|libcudart| format!(", with {libcudart}"))
            .unwrap_or_default();
        lines.extend(below("", &format!("UNEXPECTED{on}:"), room));
        for why in &answer.verdict.unexpected {
            lines.extend(below("  ", why, room));
        }
        lines.extend(below("  seen: ", &answer.verdict.detail, room));
    } else {
        lines.extend(below("HARNESS ERROR: ", &answer.verdict.detail, room));
    }
    for (head, detail) in &answer.details {
        let head = format!("  {}", terminal(head));
        // Behind a name that takes the whole line there is no room.
        let fits = display_columns(&head) * 2 <= room;
        lines.extend(if fits {
            below(&head, detail, room)
        } else {
            below("  ", &format!("{head}{detail}"), room)
        });
    }
    if answer.verdict.kind == Kind::Reproduced {
        lines.extend(workaround(&[answer], room));
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

/// The answers of one question that are as they should be, told together.
fn answered(
    first: &InstanceAnswer,
    answers: &[&InstanceAnswer],
    of: usize,
    width: usize,
    style: Style,
) -> String {
    let [yes, no, open] = [Kind::Reproduced, Kind::NotReproduced, Kind::Inconclusive].map(|kind| {
        let alike = answers
            .iter()
            .copied()
            .filter(|answer| answer.verdict.kind == kind);
        alike.collect::<Vec<&InstanceAnswer>>()
    });
    let leading = yes.first().or(no.first()).copied().unwrap_or(first);
    let mixed = !yes.is_empty() && !no.is_empty();
    let answer = mark_simulated(first, if mixed { "some" } else { word(leading) });
    let indent = question_indent(first, &answer);
    let room = width.saturating_sub(indent);
    let many_runtimes = answers
        .iter()
        .any(|answer| answer.libcudart != first.libcudart);
    let has_values = many_runtimes || of > 1;
    let mut lines = Vec::new();
    let all_alike = of > 1 && (yes.len() == of || no.len() == of);
    if has_values && !all_alike && !(yes.is_empty() && no.is_empty()) {
        let several = mixed || !open.is_empty();
        let parts = [&yes, &no].into_iter().filter_map(|answers| {
            let first = answers.first()?;
            let head = if several {
                format!("{} for", word(first))
            } else {
                "for".to_owned()
            };
            Some((head, answer_labels(answers, many_runtimes)))
        });
        lines.extend(words(&values::line(&parts.collect::<Vec<_>>(), room), room));
    }
    for (why, answers) in by_reason(&open) {
        let head = if has_values {
            let parts = [(
                "not settled for".to_owned(),
                answer_labels(&answers, many_runtimes),
            )];
            format!("{}: ", values::line(&parts, room))
        } else {
            "not settled: ".to_owned()
        };
        lines.extend(words(&format!("{head}{}", terminal(&why)), room));
    }
    if let Some(rate) = yes.iter().find_map(|answer| answer.rate.as_ref()) {
        lines.extend(below("", rate, room));
    }
    lines.extend(workaround(&yes, room));
    let impact = answers
        .iter()
        .map(|it| Impact::new(it.verdict.kind, &it.workaround))
        .min();
    let painted = style.paint_words(impact.unwrap_or(Impact::Unknown).ansi_color(), &answer);
    // The values of a single instance stand beside its question if there is room, else in its name.
    let values = first
        .name
        .strip_prefix(first.scenario.as_str())
        .unwrap_or_default();
    let with_values = format!("{} {values}", first.question);
    let beside = of == 1 && !values.is_empty() && display_columns(&terminal(&with_values)) <= room;
    let question = if beside {
        with_values.as_str()
    } else {
        first.question.as_str()
    };
    let name = match (of, all_alike) {
        (1, _) if beside => first.scenario.clone(),
        (1, _) => first.name.clone(),
        (_, true) => format!("{} (all {of})", first.scenario),
        (_, false) => first.scenario.clone(),
    };
    QuestionBlock {
        word: answer,
        painted,
        question,
        name: &name,
        below: lines,
    }
    .lines(indent, width, style)
}

/// The values of each answer, and its libcudart where the answers have several.
fn answer_labels(answers: &[&InstanceAnswer], many_runtimes: bool) -> Vec<String> {
    let labels = answers.iter().map(
        |answer| match (&answer.libcudart, answer.values.is_empty()) {
            (Some(libcudart), true) if many_runtimes => libcudart.clone(),
            (Some(libcudart), false) if many_runtimes => format!("{} ({libcudart})", answer.values),
            _ => answer.values.clone(),
        },
    );
    labels.collect()
}

/// Open answers by why they are, in the order in which the reasons come.
fn by_reason<'a>(open: &[&'a InstanceAnswer]) -> Vec<(String, Vec<&'a InstanceAnswer>)> {
    group_by_key(open.iter().map(|&answer| {
        let verdict = &answer.verdict;
        (
            verdict
                .reason
                .map_or_else(|| verdict.detail.clone(), |it| reason(it).to_owned()),
            answer,
        )
    }))
}

/// The order or call that works, where one is needed.
fn workaround(bites: &[&InstanceAnswer], room: usize) -> Vec<String> {
    let workaround = bites.first().map(|answer| answer.workaround.as_str());
    workaround
        .filter(|workaround| is_workaround(workaround))
        .map_or_else(Vec::new, |workaround| below("→ ", workaround, room))
}
