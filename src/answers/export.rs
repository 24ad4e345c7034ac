//! A scenario as one program that needs nothing of this one: the calls of its trap and of its control, each in a
//! process of its own, NVML's reading where the effect is about memory, and an exit code that says whether it shows.
//!
//! [`Reproducer::new`] makes of a scenario what both languages need, or says why a program of its own cannot show it;
//! `case` writes its steps, and `c` and `python` what is around them. The calls come from the tables of [`cuda_pitfalls_calls`].
//!
//! Pure: text from values.

mod argument;
mod c;
mod case;
mod condition;
mod effect;
mod error;
mod header;
mod helpers;
mod language;
mod lines;
mod program;
mod python;
mod writer;

pub use error::ExportError;
pub use language::Language;
pub use program::Reproducer;

use cuda_pitfalls_core::scenario::{Instance, Scenario};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::sentence;

/// The whole file.
///
/// # Errors
/// Why this program cannot be written in this language, in a sentence.
pub fn write_reproducer(
    program: &Reproducer<'_>,
    language: Language,
) -> Result<String, ExportError> {
    match language {
        Language::C => c::file(program),
        Language::Python => python::file(program),
    }
}

/// The width of a terminal, in columns.
const WIDTH: usize = 80;

/// In which languages an instance can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The instance.
    pub name: String,
    /// Each language, with the reason if it cannot be written in it.
    pub languages: Vec<(Language, Option<ExportError>)>,
}

impl Offer {
    /// Writes the instance in each language, to see whether it can be.
    pub fn new(scenario: &Scenario, instance: &Instance) -> Offer {
        let languages = Language::ALL.map(|language| {
            let written = Reproducer::new(scenario, instance, "reproducer")
                .and_then(|instance| write_reproducer(&instance, language));
            (language, written.err())
        });
        Offer {
            name: instance.name.clone(),
            languages: languages.into(),
        }
    }

    /// The languages that it can be written in.
    pub fn written(&self) -> impl Iterator<Item = Language> {
        self.languages
            .iter()
            .filter(|(_, why)| why.is_none())
            .map(|(language, _)| *language)
    }

    /// A line for each: the languages and the name; below a name that has none, the reason. Then how many there are.
    pub fn table(offers: &[Offer]) -> String {
        let mut text = String::new();
        for offer in offers {
            let languages: Vec<&str> = offer.written().map(Language::name).collect();
            let languages = if languages.is_empty() {
                "-".to_string()
            } else {
                languages.join(" ")
            };
            text.push_str(&format!("{languages:<8}  {}\n", terminal(&offer.name)));
            // The last language is the one that any scenario could have.
            let why = offer.languages.last().and_then(|(_, why)| why.as_ref());
            if offer.written().next().is_none()
                && let Some(why) = why
            {
                text.push_str(&sentence("            ", &why.to_string(), WIDTH));
            }
        }
        let some = offers
            .iter()
            .filter(|offer| offer.written().next().is_some())
            .count();
        let [c, python] = Language::ALL.map(|language| {
            offers
                .iter()
                .filter(|offer| offer.written().any(|one| one == language))
                .count()
        });
        text.push_str(&format!(
            "{some} of {} can be written: {c} in C, {python} in Python\n",
            offers.len()
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_has_its_reason_and_fits_the_terminal() {
        let offer = |name: &str, c: Option<ExportError>, python: Option<ExportError>| Offer {
            name: name.to_string(),
            languages: vec![(Language::C, c), (Language::Python, python)],
        };
        let long = "it does what only the worker can do ".repeat(4);
        let text = Offer::table(&[
            offer("a/b", None, None),
            offer(
                "a/c",
                Some(ExportError("its steps are lines of Python".to_string())),
                None,
            ),
            offer(
                "a/d",
                Some(ExportError(long.clone())),
                Some(ExportError(long.clone())),
            ),
        ]);
        assert!(
            text.starts_with("c python  a/b\npython    a/c\n-         a/d\n            it does"),
            "{text}"
        );
        assert!(
            text.ends_with("2 of 3 can be written: 1 in C, 2 in Python\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }
}
