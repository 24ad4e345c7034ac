//! The page about `export`, with the calls of three reproducers, what cannot be written, and how the others ended on a
//! GPU beside the verdict of `run`.

use cuda_pitfalls::export::{Language, Offer, Reproducer, reproducer};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::text::escape::markdown;
use cuda_pitfalls::verdict::Kind;

use crate::TaskError;
use crate::page::{Measurement, verdict_of};

/// The prose, in which `{{…}}` is filled in.
const PROSE: &str = include_str!("export.md");
/// The questions whose reproducers are shown, by what the prose calls them.
const SHOWN: [(&str, &str, Language); 3] = [
    ("c", "context/set-device-is-eager", Language::C),
    ("python", "visibility/mask-after-device-count", Language::Python),
    ("lines", "framework/torch-is-available-then-mask", Language::Python),
];

/// How reproducers ended on two GPUs: a table with a head, after lines of comment.
const ENDED: &str = include_str!("../../reports/reproducers-h200-x2/exit-codes.tsv");

/// Why a reproducer need not end as `run` did, by its question.
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
    /// What the machine did not have that the question needs.
    lacks: Option<&'t str>,
}

/// What the table says.
///
/// # Errors
/// A row without a code.
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

/// How many ended as `run` says, and which did not.
///
/// # Errors
/// A reproducer that ended differently, without a reason in [`REASONS`].
fn on_gpus(measured: &[Measurement]) -> Result<String, TaskError> {
    let ended = ended(ENDED)?;
    let (with_all, lacking): (Vec<&Ended>, Vec<&Ended>) = ended.iter().partition(|one| one.lacks.is_none());
    let mut counts: Vec<[usize; 2]> = vec![[0; 2]; 3];
    let mut differ = Vec::new();
    for one in with_all {
        let expected = match verdict_of(measured, one.question) {
            Some(Kind::Reproduced) => 0,
            Some(Kind::NotReproduced) => 1,
            _ => return Err(format!("{} was run as {} and not measured", one.question, one.language).into()),
        };
        let kind = if one.question.starts_with("framework/") { 2 } else { usize::from(one.language == "python") };
        if let Some([same, all]) = counts.get_mut(kind) {
            *all += 1;
            *same += usize::from(one.code == expected);
        }
        if one.code != expected {
            let why = REASONS.iter().find(|(question, _)| *question == one.question).map(|(_, why)| why);
            let why = why.ok_or_else(|| format!("{} in {}: {} and no reason", one.question, one.language, one.code))?;
            differ.push(format!("| `{}` | {} | {} | {expected} | {why} |", one.question, one.language, one.code));
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
        lacking.iter().filter(|one| one.code == 2).count(),
        differ.join("\n")
    ))
}

/// The part of a reproducer that is its question's own: its cases and its effect, without what runs and measures them.
/// None if it is not where the emitter puts it.
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
/// One of the reproducers cannot be written, or one ended differently without a reason.
pub fn page(scenarios: &[Scenario], measured: &[Measurement]) -> Result<String, TaskError> {
    let instances = || scenarios.iter().flat_map(|one| one.instances.iter().map(move |instance| (one, instance)));
    let offers: Vec<Offer> = instances().map(|(scenario, instance)| Offer::of(scenario, instance)).collect();
    let refused = offers.iter().filter(|offer| offer.written().next().is_none());
    let rows: Vec<String> = refused
        .map(|offer| {
            // Of lines the reason that is not about the language is the one.
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
