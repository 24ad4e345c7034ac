//! The result of `explain`: the known entries for the names, the first answer in full, and the others as one line each.

mod document;
mod instead;

pub use document::{ExplanationDocument, document};

use instead::{compared, version_lines, written};

use super::block::{Block, Entry, Text};
use super::words::misspelling_sentence;
use super::writer::terminal::{PAGE, Screen, write};
use super::{doctor, listing};
use cuda_pitfalls_answers::doctor::Diagnosed;
use cuda_pitfalls_answers::explain::{
    Advice, Certainty, ErrorCause, Explanation, Query, ScenarioAnswer, advice_about, measured_code,
    scenario_of_mask,
};
use cuda_pitfalls_answers::known::{KnownEntry, KnownKind, KnownScenario, Word};
use cuda_pitfalls_core::examination::Examination;
use cuda_pitfalls_core::scenario::is_workaround;

/// Maximum number of lines of a program that are shown; `show` has all of them.
const MOST_LINES: usize = 12;
/// Maximum number of causes of an error that are shown; `--all` shows all of them.
const MOST_CAUSES: usize = 3;
/// Maximum length of a heading; a longer one is truncated.
const MOST_OF_WORDS: usize = 60;

/// Selects the causes of an error that are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShownCauses<'e> {
    /// `true` if all are shown, not only the first [`MOST_CAUSES`].
    pub all: bool,
    /// Result of the examination of this machine, if it was made.
    pub here: Option<(&'e Examination, &'e Diagnosed)>,
}

/// Returns the explanation for a person, on lines of the width of `screen`.
pub fn text(
    explanation: &Explanation<'_>,
    shown: ShownCauses<'_>,
    screen: impl Into<Screen>,
) -> String {
    let mut blocks = Vec::new();
    if let Some(statement) = &explanation.unmeasured_import {
        blocks.extend(unmeasured_import(statement));
    }
    blocks.extend(match (explanation.certainty, explanation.asked_symptom()) {
        (Certainty::Nothing, _) if !blocks.is_empty() => Vec::new(),
        (Certainty::Nothing, _) => nothing(explanation),
        (_, Some(symptom)) if explanation.first_advice().is_none() => {
            symptom_blocks(symptom, explanation)
        }
        (Certainty::Closest, _) => nearest_blocks(explanation, shown),
        (Certainty::Named | Certainty::Said | Certainty::Advised, _) => {
            claimed_blocks(explanation, shown)
        }
    });
    write(&blocks, screen.into().at_most(PAGE))
}

/// Returns the note that an import was not measured, and the command that measures it.
fn unmeasured_import(statement: &str) -> [Block; 2] {
    let said = format!("`{statement}` has not been measured yet.");
    let code = format!("'{}'", statement.replace('\'', "'\\''"));
    [
        Block::paragraph(said),
        command(
            "Measure it",
            format!("cuda-pitfalls trace --forbid cuinit -- python -c {code}"),
        ),
    ]
}

/// Returns a command with its purpose. It is meant to be copied, so it is not broken.
fn command(name: &str, command: impl Into<String>) -> Block {
    Block::fact(name, Text::code(command))
}

/// Returns the command that traces the user's own program.
fn your_program(query: &Query) -> Block {
    let program = if query.is_python {
        "python train.py"
    } else {
        "COMMAND"
    };
    command("Your program", format!("cuda-pitfalls trace -- {program}"))
}

fn open_one() -> [Block; 2] {
    [Block::Gap, command("Details", "cuda-pitfalls explain NAME")]
}

/// Returns the exact answers: the entries that the query names or contains, an error with its causes, or the first
/// scenario in full.
fn claimed_blocks(explanation: &Explanation<'_>, shown: ShownCauses<'_>) -> Vec<Block> {
    let mut blocks = known_sentences(explanation);
    let mut rest = explanation.answers.as_slice();
    let mut full = None;
    let mut measured = Vec::new();
    let advice = explanation.first_advice();
    if let Some(advice) = advice {
        blocks.extend(advice_blocks(advice, shown));
        for cause in &advice.causes {
            measured.extend(&cause.scenario);
        }
    } else if let Some((first, others)) = rest.split_first() {
        (full, rest) = (Some(first), others);
    }
    let mut short = Vec::new();
    for answer in rest {
        if !measured.contains(&&answer.known.name) {
            short.push(in_short(answer));
        }
    }
    blocks.extend(full.into_iter().flat_map(in_full));
    if !short.is_empty() {
        let heading = match explanation.certainty {
            Certainty::Named => "Related:",
            Certainty::Advised => "Related:",
            _ => "Also similar:",
        };
        blocks.push(Block::heading(2, heading));
    }
    blocks.extend(short);
    match (full, advice, explanation.said.first()) {
        (Some(_), ..) => {}
        (None, None, Some(entry)) if entry.page.is_empty() => blocks.push(Block::Gap),
        (None, None, Some(entry)) => {
            let page = Block::fact("Page", Text::code(&entry.page));
            blocks.extend([Block::Gap, page]);
        }
        (None, ..) => blocks.extend(open_one()),
    }
    blocks.push(your_program(&explanation.query));
    blocks
}

/// Returns the answers that are only similar to the query.
fn nearest_blocks(explanation: &Explanation<'_>, shown: ShownCauses<'_>) -> Vec<Block> {
    let mut blocks = known_sentences(explanation);
    let mut names = explanation.names();
    let mut advice = None;
    if let Some(first) = names.first()
        && let Some(entry) = near_entry(explanation, first)
    {
        advice = advice_about(&entry.id).map(|advice| (entry, advice));
    }
    if let Some((entry, advice)) = advice {
        blocks.push(Block::heading(2, "No exact match. Closest:"));
        if entry.kind == KnownKind::Error {
            blocks.push(Block::paragraph(&entry.sentence));
        }
        blocks.extend(advice_blocks(advice, shown));
        names.remove(0);
    }
    let mut found = Vec::new();
    for name in &names {
        let mut answers = explanation.answers.iter();
        match answers.find(|answer| answer.known.name == *name) {
            Some(answer) => found.push(in_short(answer)),
            None => found.extend(near_entry(explanation, name).map(entry_in_short)),
        }
    }
    if !found.is_empty() {
        let heading = match advice {
            Some(_) => "Also similar:",
            None => "No exact match. Similar reports:",
        };
        blocks.push(Block::heading(2, heading));
        blocks.extend(found);
        blocks.extend(open_one());
    }
    blocks.push(your_program(&explanation.query));
    blocks
}

fn near_entry<'e>(explanation: &'e Explanation<'_>, id: &str) -> Option<&'e KnownEntry> {
    let mut entries = explanation.near.iter();
    entries.find(|entry| entry.id == id).map(|entry| &**entry)
}

fn symptom_blocks(symptom: &KnownEntry, explanation: &Explanation<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, format!("{}:", symptom.sentence))];
    blocks.extend(explanation.answers.iter().map(in_short));
    blocks.extend(open_one());
    let name = symptom.names.first().map_or("", String::as_str);
    blocks.extend([
        command("Run here", format!("cuda-pitfalls run {name}")),
        your_program(&explanation.query),
    ]);
    blocks
}

/// Returns a sentence about each entry that the query names or contains. Messages and questions get no sentence: the
/// reader has just read the message, and the answer to the question is below.
fn known_sentences(explanation: &Explanation<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (name, meant) in &explanation.query.misspelt {
        blocks.push(Block::paragraph(misspelling_sentence(name, meant)));
    }
    let first = explanation.said.first();
    for entry in explanation.said.iter().chain(&explanation.beside) {
        let is_told = match entry.kind {
            // The log does not contain the name of an Xid. The first one's name is in its advice.
            KnownKind::Message => entry.id.starts_with("xid/") && first != Some(entry),
            kind => kind != KnownKind::Scenario,
        };
        if is_told {
            blocks.push(Block::paragraph(measured_sentence(entry)));
        }
    }
    blocks
}

/// Returns the sentence of an entry; for a line, with the code that was measured if its name differs.
fn measured_sentence(entry: &KnownEntry) -> String {
    match measured_code(&entry.id) {
        Some(code) if !entry.names.iter().any(|name| name == code) => {
            let words: Vec<&str> = code.split_whitespace().collect();
            format!("{} Measured: `{}`.", entry.sentence, words.join(" "))
        }
        _ => entry.sentence.clone(),
    }
}

/// Returns the meaning of an error, the first thing to do, the cause on this machine, and the possible causes with
/// their evidence.
fn advice_blocks(advice: &Advice, shown: ShownCauses<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::paragraph(&advice.means),
        Block::Gap,
        Block::fact("First", &advice.first),
    ];
    let mut mask = None;
    if let Some((examination, diagnosed)) = shown.here {
        mask = diagnosed.mask_at_fault().and_then(scenario_of_mask);
        let here = doctor::cause_texts(examination, diagnosed);
        if here.is_empty() {
            let none = "`cuda-pitfalls doctor` finds no cause at the moment.";
            blocks.push(Block::fact("Here", none));
        } else {
            blocks.extend([Block::heading(2, "The cause here"), Block::List(here)]);
        }
    } else if advice.doctor {
        blocks.push(command("Why here", "cuda-pitfalls doctor"));
    }
    let is_here = |cause: &ErrorCause| mask.is_some() && cause.scenario.as_deref() == mask;
    let mut causes: Vec<&ErrorCause> = advice.causes.iter().collect();
    causes.sort_by_key(|cause| !is_here(cause));
    let most = if shown.all { causes.len() } else { MOST_CAUSES };
    let mut items = Vec::new();
    for cause in causes.iter().take(most) {
        let mut lines: Vec<Text> = vec![if is_here(cause) {
            format!("(applies here) {}", cause.cause).into()
        } else {
            (&cause.cause).into()
        }];
        if let Some(tell) = &cause.tell {
            lines.push(format!("check: {tell}").into());
        }
        lines.extend(cause.grounds_phrase().map(Text::from));
        items.push(Text::lines(lines));
    }
    blocks.extend([Block::heading(2, "Possible causes"), Block::List(items)]);
    let more = causes.len().saturating_sub(most);
    if more > 0 {
        blocks.push(Block::paragraph(format!("{more} more with --all.")));
    }
    blocks.extend(advice.releases_sentence().map(Block::paragraph));
    if !advice.causes.iter().any(ErrorCause::is_measured) {
        blocks.push(Block::paragraph(
            "None of these causes has been measured yet.",
        ));
    }
    blocks.push(Block::Gap);
    blocks
}

/// Returns the one-word answer and the question, with the name for `show` at the right.
fn in_short(answer: &ScenarioAnswer<'_>) -> Block {
    let KnownScenario {
        question,
        name,
        word,
        ..
    } = answer.known;
    let title = format!("{:5}{question}", word.name()).into();
    Block::Entry(Entry {
        title,
        aside: name.clone(),
        ..Entry::default()
    })
}

/// Returns the meaning of an error, a message or a symptom, with its name at the right.
fn entry_in_short(entry: &KnownEntry) -> Block {
    let title = format!("{:5}{}", "", measured_sentence(entry)).into();
    let aside = entry.names.first().cloned().unwrap_or_default();
    Block::Entry(Entry {
        title,
        aside,
        ..Entry::default()
    })
}

/// Returns what to try if nothing in the text is about CUDA's start-up.
fn nothing(explanation: &Explanation<'_>) -> Vec<Block> {
    let query = &explanation.query;
    if let Some(platform) = query.platform {
        return vec![Block::paragraph(format!(
            "This is about {platform}, which cuda-pitfalls does not cover."
        ))];
    }
    let words: String = query.words.chars().take(MOST_OF_WORDS).collect();
    let tries = [
        "the error's message, name or number: `explain 700`",
        "the call or line that you suspect: `explain torch.cuda.is_available`",
        "the whole traceback: `python train.py 2>&1 | cuda-pitfalls explain -`",
        "`list --symptoms` for known symptoms, then `run SYMPTOM`",
        "`trace -- COMMAND` to see what your program does with CUDA",
    ];
    vec![
        Block::paragraph(format!(
            "No CUDA initialization problem recognized in: {words}"
        )),
        Block::paragraph("Try"),
        Block::list(tries),
    ]
}

/// Returns the first answer, with the replacement to write.
fn in_full(answer: &ScenarioAnswer<'_>) -> Vec<Block> {
    let Some(scenario) = answer.scenario() else {
        return vec![in_short(answer)];
    };
    let known = answer.known;
    let said = match (known.word, known.answer.as_str()) {
        (Word::Unmeasured, "") => "Not measured yet.",
        (Word::Yes, "") => "Yes.",
        (Word::No, "") => "No.",
        (Word::Depends, "") => "It depends; see `show`.",
        (_, answer) => answer,
    };
    let mut blocks = vec![Block::heading(2, &known.question), Block::paragraph(said)];
    if known.word != Word::No
        && let Some((trap, control)) = compared(&scenario)
    {
        blocks.extend([
            Block::Gap,
            Block::fact("Instead of", &trap.does),
            Block::fact("write", &control.does),
        ]);
        let mut written = written(control);
        let more = written.len().saturating_sub(MOST_LINES);
        written.truncate(MOST_LINES);
        if more > 0 {
            written.push(format!("… and {more} more"));
        }
        blocks.push(Block::Code("", written));
    }
    blocks.push(Block::Gap);
    if is_workaround(&scenario.workaround) {
        blocks.push(Block::fact("Workaround", &scenario.workaround));
    } else if !scenario.workaround.is_empty() {
        blocks.push(Block::fact("To do", &scenario.workaround));
    }
    let since = version_lines(known, &scenario);
    if !since.is_empty() {
        blocks.push(Block::fact("Versions", since.join("; ")));
    }
    blocks.push(match known.machines.as_slice() {
        [] => Block::fact("Measured", "not yet"),
        machines => Block::fact("Measured", machines.join("; ")),
    });
    if let Some(basis) = &known.basis {
        blocks.push(Block::fact("Evidence", basis.sentence()));
    }
    blocks.push(command("Run here", listing::show::command(&scenario)));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::explain::Explainer;
    use cuda_pitfalls_answers::known::Known;
    use cuda_pitfalls_core::text::lines;

    fn shown(words: &str, width: usize) -> String {
        text(
            &Explainer::embedded().explain(Query::parse(words)),
            ShownCauses::default(),
            width,
        )
    }

    #[test]
    fn first_stands_before_three_causes() {
        let found = Explainer::embedded().explain(Query::parse("error 100"));
        let [few, all] = [false, true].map(|all| text(&found, ShownCauses { all, here: None }, 80));
        for text in [&few, &all] {
            assert!(
                text.find("First  ") < text.find("Possible causes"),
                "{text}"
            );
        }
        let causes = |text: &str| text.matches("\n- ").count();
        assert_eq!(
            (causes(&few), causes(&all)),
            (3, found.first_advice().unwrap().causes.len()),
            "{few}"
        );
        assert!(
            few.contains("4 more with --all.") && !all.contains("with --all"),
            "{few}"
        );
    }

    #[test]
    fn a_line_is_described_only_where_it_alone_was_asked() {
        for words in [
            "torch.cuda.is_available mask",
            "torch.cuda.is_available() is False, CUDA error 100",
        ] {
            assert!(
                !shown(words, 80).contains("In a fresh process"),
                "{words}: {}",
                shown(words, 80)
            );
        }
        assert!(shown("torch.cuda.is_available", 80).contains("In a fresh process"));
        let other = shown("torch.cuda.set_device(3)", 80)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            other.contains("Measured: `torch.cuda.set_device(1)`."),
            "{other}"
        );
    }

    #[test]
    fn an_unmeasured_import_says_how_to_ask() {
        let text = shown("import somepackage", 80);
        let ask = "cuda-pitfalls trace --forbid cuinit -- python -c 'import somepackage'";
        assert!(
            text.contains("has not been measured yet") && text.contains(ask),
            "{text}"
        );
    }

    #[test]
    fn every_answer_ends_with_what_to_run_on_the_own_program() {
        for (words, command) in [
            ("torch.cuda.is_available", "-- python train.py"),
            ("cudaSetDevice", "-- COMMAND"),
            ("stray-memory-gpu0", "-- COMMAND"),
            (
                "RuntimeError: No CUDA GPUs are available",
                "-- python train.py",
            ),
            ("all workers are on GPU 0", "-- COMMAND"),
        ] {
            let text = shown(words, 80);
            let last = format!("Your program cuda-pitfalls trace {command}");
            assert!(
                text.lines().last().is_some_and(|line| line == last),
                "{words}: {text}"
            );
        }
    }

    #[test]
    fn a_line_of_a_framework_is_answered_in_python_on_one_screen() {
        let text = shown("torch.cuda.is_available", 80);
        assert!(
            text.starts_with(
                "In a fresh process torch.cuda.is_available reads the mask (at\ntorch/"
            ),
            "{text}"
        );
        assert!(text.contains("\n    import os, torch\n"), "{text}");
        assert!(
            text.contains("Run here    cuda-pitfalls run framework/torch-is-available-then-mask"),
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let versions = "Versions with torch 2.11 the pitfall occurs; newer than torch 2.11.0: not measured on a GPU; ";
        assert!(words.contains(versions), "{text}");
        let basis = Known::embedded()
            .scenario("framework/torch-is-available-then-mask")
            .unwrap()
            .basis
            .clone()
            .unwrap()
            .sentence();
        assert!(words.contains(&format!("Evidence {basis} ")), "{text}");
        assert!(text.lines().count() <= 45, "{text}");
        assert!(text.lines().all(|line| !line.contains("[ask]")), "{text}");
    }

    #[test]
    fn a_call_is_answered_by_the_survey_and_in_calls() {
        let text = shown("cudaGetErrorString", 100).replace('\n', " ");
        let known = "cudaGetErrorString reads the mask, creates no context, uses 3.3 MiB: libcudart 11.7 to 13.5";
        assert!(text.contains(known), "{text}");
        assert!(
            shown("cudaSetDevice", 80).contains("    cudaGetDeviceCount()"),
            "{}",
            shown("cudaSetDevice", 80)
        );
    }

    #[test]
    fn errors_and_variables_are_said() {
        let text = shown("700", 80);
        assert!(
            text.starts_with(
                "Error 700 is cudaErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS: an illegal"
            ),
            "{text}"
        );
        assert!(
            shown("CUDA_LAUNCH_BLOCKING", 80)
                .contains("is read at first context; a value that is set later")
        );
    }

    #[test]
    fn every_question_fits_a_terminal_of_80_columns() {
        for scenario in Known::embedded().scenarios.iter().step_by(3) {
            let text = shown(&scenario.question, 80);
            let wide = text
                .lines()
                .filter(|line| lines::display_columns(line) > 80);
            // A command and an address are copied, so they are not broken.
            let mut broken = wide
                .filter(|line| !line.contains("cuda-pitfalls run ") && !line.contains("https://"));
            assert_eq!(broken.next(), None, "{}", scenario.name);
            assert!(
                text.lines().count() <= 56,
                "{}: {} lines\n{text}",
                scenario.name,
                text.lines().count()
            );
        }
    }

    #[test]
    fn words_of_a_stranger_cannot_control_a_terminal() {
        let text = shown("qwertyuiop \u{1b}]52;c;aGk=\u{7}", 80);
        assert!(
            text.starts_with("No CUDA initialization problem recognized in: ")
                && !text.contains('\u{1b}'),
            "{text:?}"
        );
    }
}
