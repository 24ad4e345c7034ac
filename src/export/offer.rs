//! Which languages an instance can be written in, and why not the others.

use super::{Language, Program, Refusal, reproducer};
use crate::scenario::{Instance, Scenario};
use crate::text::escape::terminal;

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
            |language| Program::of(scenario, instance, None).and_then(|program| reproducer(&program, language));
        let languages = Language::ALL.into_iter().map(|language| (language, written(language).err())).collect();
        Offer { name: instance.name.clone(), languages }
    }

    /// The languages that it can be written in.
    pub fn written(&self) -> impl Iterator<Item = Language> {
        self.languages.iter().filter(|(_, why)| why.is_none()).map(|(language, _)| *language)
    }

    /// A line for each: the name, the languages, and why there is none. At the end, how many.
    pub fn table(offers: &[Offer]) -> String {
        let wide = offers.iter().map(|offer| terminal(&offer.name).chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for offer in offers {
            let languages: Vec<&str> = offer.written().map(Language::name).collect();
            let why = offer.languages.iter().find_map(|(_, why)| why.as_ref());
            let rest = match (languages.as_slice(), why) {
                ([], Some(why)) => format!("-         {why}"),
                (some, Some(why)) => format!("{:<8}  {why}", some.join(" ")),
                (all, None) => all.join(" "),
            };
            text.push_str(&format!("{:wide$}  {}\n", terminal(&offer.name), terminal(&rest)));
        }
        let count = |language| offers.iter().filter(|offer| offer.written().any(|one| one == language)).count();
        let some = offers.iter().filter(|offer| offer.written().next().is_some()).count();
        let [c, python] = Language::ALL.map(count);
        text.push_str(&format!("{some} of {} can be written: {c} in C, {python} in Python\n", offers.len()));
        text
    }
}
