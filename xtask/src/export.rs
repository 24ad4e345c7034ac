//! The page about `export`: the calls of three reproducers, questions that cannot be exported, and how the reproducers
//! ended on a GPU, compared with the verdicts of `run`.

use cuda_pitfalls::export::{Language, Offer, Reproducer, reproducer};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::text::escape::markdown;
use cuda_pitfalls::verdict::Kind;

use crate::TaskError;
use crate::page::{Measurement, verdict_of};

/// The text of the page, in which `{{…}}` is filled in.
const PROSE: &str = include_str!("export.md");
/// The questions whose reproducers are shown, by their names in the text.
const SHOWN: [(&str, &str, Language); 3] = [
    ("c", "context/set-device-is-eager", Language::C),
    ("python", "visibility/mask-after-device-count", Language::Python),
    ("lines", "framework/torch-is-available-then-mask", Language::Python),
];

/// How reproducers ended on two GPUs: a table with a heading, after lines of comment.
const ENDED: &str = include_str!("../../reports/reproducers-h200-x2/exit-codes.tsv");

/// Why a reproducer may end differently from `run`, by its question.
const REASONS: [(&str, &str); 1] = [(
    "context/reset-takes-it-from-others",
    "the handle of the stream is stale after the reset, and libcudart reads the memory where it was: here that ended \
     with SIGSEGV, in the worker with an error",
)];

/// How one reproducer ended on a GPU.
struct Ended<'t> {
    question: &'t str,
    language: &'t str,
    code: i32,
    /// What the machine lacked for the question.
    lacks: Option<&'t str>,
}

/// Parses the table.
///
/// # Errors
/// A row has no exit code.
fn ended(table: &str) -> Result<Vec<Ended<'_>>, TaskError> {
    let rows = table.lines().filter(|row| !row.starts_with('#')).skip(1);
    rows.map(|row| match row.split('\t').collect::<Vec<_>>().as_slice() {
        [question, language, code, _how, lacks] => {
            Ok(Ended { question, language, code: code.parse()?, lacks: Some(*lacks).filter(|it| *it != "-") })
        }
        _ => Err(format!("`{row}` is no row of exit codes").into()),
    })
    .collect()
}

/// A sentence on how many reproducers ended as `run` says, and which did not.
///
/// # Errors
/// A reproducer ended differently, without a reason in [`REASONS`].
fn on_gpus(measured: &[Measurement]) -> Result<String, TaskError> {
    let ended = ended(ENDED)?;
    let (with_all, lacking): (Vec<&Ended>, Vec<&Ended>) =
        ended.iter().partition(|reproducer| reproducer.lacks.is_none());
    let mut counts: Vec<[usize; 2]> = vec![[0; 2]; 3];
    let mut differ = Vec::new();
    for reproducer in with_all {
        let expected = match verdict_of(measured, reproducer.question) {
            Some(Kind::Reproduced) => 0,
            Some(Kind::NotReproduced) => 1,
            _ => {
                return Err(
                    format!("{} was run as {} and not measured", reproducer.question, reproducer.language).into()
                );
            }
        };
        let kind = if reproducer.question.starts_with("framework/") {
            2
        } else {
            usize::from(reproducer.language == "python")
        };
        if let Some([same, all]) = counts.get_mut(kind) {
            *all += 1;
            *same += usize::from(reproducer.code == expected);
        }
        if reproducer.code != expected {
            let why = REASONS.iter().find(|(question, _)| *question == reproducer.question).map(|(_, why)| why);
            let why = why.ok_or_else(|| {
                format!("{} in {}: {} and no reason", reproducer.question, reproducer.language, reproducer.code)
            })?;
            differ.push(format!(
                "| `{}` | {} | {} | {expected} | {why} |",
                reproducer.question, reproducer.language, reproducer.code
            ));
        }
    }
    let [c, python, lines] = [0, 1, 2].map(|kind| counts.get(kind).copied().unwrap_or_default());
    Ok(format!(
        "On 2× NVIDIA H200 (driver 580.159.04, libcudart 13.0) each was compiled and run: {} of {} C files, {} of {} \
         ctypes scripts and {} of {} scripts of frameworks ended as the verdict of `run` says \
         ([exit codes](../reports/reproducers-h200-x2/exit-codes.tsv)). {} more ended with 2, because the machine lacked \
         what they need: more GPUs, or a package. Left out were those that change settings of a GPU or take more \
         managed memory than there is.\n\n\
         | question | language | code | expected | why |\n| --- | --- | --- | --- | --- |\n{}",
        c[0],
        c[1],
        python[0],
        python[1],
        lines[0],
        lines[1],
        lacking.iter().filter(|reproducer| reproducer.code == 2).count(),
        differ.join("\n")
    ))
}

/// The part of a reproducer that belongs to its question: its cases and its effect, without the code that runs and
/// measures them. `None` if the emitter puts it elsewhere.
fn calls(text: &str, language: Language) -> Option<&str> {
    let (first, after) = match language {
        Language::C => ("/* trap: ", "#define QUESTION "),
        Language::Python => ("QUESTION = ", "if __name__ == "),
    };
    let (_, part) = text.split_at_checked(text.rfind(&format!("\n{first}"))? + 1)?;
    let (part, _) = part.split_at_checked(part.find(&format!("\n{after}"))?)?;
    Some(part)
}

/// The page.
///
/// # Errors
/// A reproducer cannot be written, or ended differently without a reason.
pub fn page(scenarios: &[Scenario], measured: &[Measurement]) -> Result<String, TaskError> {
    let instances =
        || scenarios.iter().flat_map(|scenario| scenario.instances.iter().map(move |instance| (scenario, instance)));
    let offers: Vec<Offer> = instances().map(|(scenario, instance)| Offer::of(scenario, instance)).collect();
    let refused = offers.iter().filter(|offer| offer.written().next().is_none());
    let rows: Vec<String> = refused
        .map(|offer| {
            // For Python lines, the reason that is not about the language.
            let why = offer.languages.iter().rev().find_map(|(_, why)| why.as_ref());
            format!("| `{}` | {} |", offer.name, markdown(&why.map(ToString::to_string).unwrap_or_default()))
        })
        .collect();
    let count = |language| offers.iter().filter(|offer| offer.written().any(|one| one == language)).count();
    let [c, python] = Language::ALL.map(count);
    let counts = format!(
        "Of {} questions and instances {c} can be written in C and {python} in Python. Those of Python lines are \
         written in Python alone. What only this program can do or see cannot be handed on:",
        offers.len()
    );
    let mut text = PROSE.replace("{{counts}}", &counts).replace("{{refused}}", &rows.join("\n"));
    text = text.replace("{{on_gpus}}", &on_gpus(measured)?);
    for (key, name, language) in SHOWN {
        let (scenario, instance) =
            instances().find(|(_, instance)| instance.name == name).ok_or_else(|| format!("there is no {name}"))?;
        let program = Reproducer::of(scenario, instance, None)?;
        text = text.replace(&format!("{{{{{key}.name}}}}"), name);
        let whole = reproducer(&program, language)?;
        let calls = calls(&whole, language).ok_or_else(|| format!("the reproducer of {name} has no calls"))?;
        text = text.replace(&format!("{{{{{key}.text}}}}"), calls);
    }
    Ok(text)
}
