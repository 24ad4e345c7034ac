//! The page about `export`, with three reproducers whole and what cannot be written.

use std::error::Error;

use cuda_pitfalls::export::{Language, Offer, Program, reproducer};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::text::escape::markdown;

/// The prose, in which `{{…}}` is filled in.
const PROSE: &str = include_str!("export.md");
/// The questions whose reproducers are shown, by what the prose calls them.
const SHOWN: [(&str, &str, Language); 3] = [
    ("c", "context/set-device-is-eager", Language::C),
    ("python", "visibility/mask-after-device-count", Language::Python),
    ("lines", "framework/torch-is-available-then-mask", Language::Python),
];

/// The page.
///
/// # Errors
/// One of the reproducers cannot be written.
pub fn page(scenarios: &[Scenario]) -> Result<String, Box<dyn Error>> {
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
    for (key, name, language) in SHOWN {
        let (scenario, instance) =
            instances().find(|(_, instance)| instance.name == name).ok_or_else(|| format!("there is no {name}"))?;
        let program = Program::of(scenario, instance, None)?;
        text = text.replace(&format!("{{{{{key}.name}}}}"), name);
        text = text.replace(&format!("{{{{{key}.text}}}}"), &reproducer(&program, language)?);
    }
    Ok(text)
}
