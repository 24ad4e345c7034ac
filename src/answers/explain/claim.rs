//! Sentences about an error: a single look-up for `trace` and `doctor`, in the store of `explain`.

use super::{Advice, Certainty, Explainer, Query, advice_about};
use cuda_pitfalls_core::scenario::is_workaround;

/// Known explanation of an error or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAnswer {
    /// Name for `explain`, such as `error/101` or the name of a scenario.
    pub id: String,
    /// Sentences with the meaning and the first thing to do.
    pub says: String,
}

impl KnownAnswer {
    fn from_advice(advice: &Advice) -> KnownAnswer {
        KnownAnswer {
            id: advice.id.clone(),
            says: format!("{} {}", advice.means, advice.first),
        }
    }
}

/// Returns the explanation of a status that a CUDA call returned.
pub fn explain_status(status: i64) -> Option<KnownAnswer> {
    advice_about(&format!("error/{status}")).map(KnownAnswer::from_advice)
}

/// Returns the last of these lines that contains a known error or message, with its explanation. Similar texts do not
/// count.
pub fn explain_lines(lines: &[String]) -> Option<(&str, KnownAnswer)> {
    let query = Query::parse_pasted(&lines.join("\n"));
    let errors = query.errors.clone();
    let line = lines.iter().rev().find(|line| {
        Query::parse(line)
            .errors
            .iter()
            .any(|id| errors.contains(id))
    })?;
    let found = Explainer::embedded().explain(query);
    if !matches!(found.certainty, Certainty::Said | Certainty::Advised) {
        return None;
    }
    if let Some(advice) = found.first_advice() {
        return Some((line, KnownAnswer::from_advice(advice)));
    }
    let known = found.answers.first()?.known;
    let workaround = found
        .answers
        .first()?
        .scenario()
        .map(|scenario| scenario.workaround);
    let workaround = workaround
        .filter(|workaround| is_workaround(workaround))
        .unwrap_or_default();
    let says = format!("{} {} {workaround}", known.question, known.answer)
        .trim_end()
        .to_owned();
    Some((
        line,
        KnownAnswer {
            id: known.name.clone(),
            says,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_says_a_known_error_is_explained() {
        for (text, line, id) in [
            (
                "loading\nCudaDriverError: CUDA initialized before forking\nbye",
                1,
                "framework/numba-is-available-then-fork",
            ),
            (
                "RuntimeError: CUDA error: invalid device ordinal",
                0,
                "error/101",
            ),
        ] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let (found, known) = explain_lines(&lines).unwrap();
            assert_eq!((found, known.id.as_str()), (lines[line].as_str(), id));
        }
        for text in ["", "ValueError: invalid argument", "KeyError: 'weights'"] {
            assert_eq!(explain_lines(&[text.to_owned()]), None, "{text}");
        }
    }
}
