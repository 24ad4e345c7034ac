//! Which languages an instance can be written in, and why not the others.

use super::{Language, Refusal, Reproducer, reproducer};
use cuda_pitfalls_core::scenario::{Instance, Scenario};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::sentence;

/// The width of a terminal, in columns.
const WIDTH: usize = 80;

/// What can be had of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The instance.
    pub name: String,
    /// Each language, with the reason if it cannot be written in it.
    pub languages: Vec<(Language, Option<Refusal>)>,
}

impl Offer {
    /// Writes the instance in each language, to see whether it can be.
    pub fn of(scenario: &Scenario, instance: &Instance) -> Offer {
        let written =
            |language| Reproducer::of(scenario, instance, None).and_then(|program| reproducer(&program, language));
        let languages = Language::ALL.into_iter().map(|language| (language, written(language).err())).collect();
        Offer { name: instance.name.clone(), languages }
    }

    /// The languages that it can be written in.
    pub fn written(&self) -> impl Iterator<Item = Language> {
        self.languages.iter().filter(|(_, why)| why.is_none()).map(|(language, _)| *language)
    }

    /// A line for each: the languages and the name; below a name that has none, the reason. At the end,
    /// how many there are.
    pub fn table(offers: &[Offer]) -> String {
        let mut text = String::new();
        for offer in offers {
            let languages: Vec<&str> = offer.written().map(Language::name).collect();
            let languages = if languages.is_empty() { "-".to_string() } else { languages.join(" ") };
            text.push_str(&format!("{languages:<8}  {}\n", terminal(&offer.name)));
            // The last language is the one that any scenario could have.
            let why = offer.languages.last().and_then(|(_, why)| why.as_ref());
            if let Some(why) = why.filter(|_| offer.written().next().is_none()) {
                text.push_str(&sentence("            ", &why.to_string(), WIDTH));
            }
        }
        let count = |language| offers.iter().filter(|offer| offer.written().any(|one| one == language)).count();
        let some = offers.iter().filter(|offer| offer.written().next().is_some()).count();
        let [c, python] = Language::ALL.map(count);
        text.push_str(&format!("{some} of {} can be written: {c} in C, {python} in Python\n", offers.len()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_has_its_reason_and_fits_the_terminal() {
        let why = |text: &str| Some(Refusal(text.to_string()));
        let offer = |name: &str, c: Option<Refusal>, python: Option<Refusal>| Offer {
            name: name.to_string(),
            languages: vec![(Language::C, c), (Language::Python, python)],
        };
        let long = "it does what only the worker can do ".repeat(4);
        let text = Offer::table(&[
            offer("a/b", None, None),
            offer("a/c", why("its steps are lines of Python"), None),
            offer("a/d", why(&long), why(&long)),
        ]);
        assert!(text.starts_with("c python  a/b\npython    a/c\n-         a/d\n            it does"), "{text}");
        assert!(text.ends_with("2 of 3 can be written: 1 in C, 2 in Python\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }
}
