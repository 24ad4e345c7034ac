//! The page about `export`: three reproducers, and the questions that cannot be exported.

use cuda_pitfalls::export::{Language, Offer, Reproducer, reproducer};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::text::escape::markdown;

use crate::TaskError;

/// The text of the page, in which `{{…}}` is filled in.
const PROSE: &str = include_str!("export.md");
/// The questions whose reproducers are shown, by their names in the text.
const SHOWN: [(&str, &str, Language); 3] = [
    ("c", "context/set-device-is-eager", Language::C),
    (
        "python",
        "visibility/mask-after-device-count",
        Language::Python,
    ),
    (
        "lines",
        "framework/torch-is-available-then-mask",
        Language::Python,
    ),
];

/// The page.
///
/// # Errors
/// A reproducer cannot be written.
pub fn page(scenarios: &[Scenario]) -> Result<String, TaskError> {
    let instances = || {
        scenarios.iter().flat_map(|scenario| {
            scenario
                .instances
                .iter()
                .map(move |instance| (scenario, instance))
        })
    };
    let offers: Vec<Offer> = instances()
        .map(|(scenario, instance)| Offer::new(scenario, instance))
        .collect();
    let refused = offers
        .iter()
        .filter(|offer| offer.written().next().is_none());
    let rows: Vec<String> = refused
        .map(|offer| {
            // For Python lines, the reason that is not about the language.
            let why = offer
                .languages
                .iter()
                .rev()
                .find_map(|(_, why)| why.as_ref());
            format!(
                "| `{}` | {} |",
                offer.name,
                markdown(&why.map(ToString::to_string).unwrap_or_default())
            )
        })
        .collect();
    let [c, python] = Language::ALL.map(|language| {
        offers
            .iter()
            .filter(|offer| offer.written().any(|one| one == language))
            .count()
    });
    let counts = format!(
        "Of {} questions and instances {c} can be written in C and {python} in Python. Those of Python lines are \
         written in Python alone. What only this program can do or see cannot be handed on:",
        offers.len()
    );
    let mut text = PROSE
        .replace("{{counts}}", &counts)
        .replace("{{refused}}", &rows.join("\n"));
    for (key, name, language) in SHOWN {
        let (scenario, instance) = instances()
            .find(|(_, instance)| instance.name == name)
            .ok_or_else(|| format!("there is no {name}"))?;
        let stem = name.rsplit('/').next().unwrap_or(name);
        let whole = reproducer(&Reproducer::new(scenario, instance, stem)?, language)?;
        text = text
            .replace(&format!("{{{{{key}.name}}}}"), name)
            .replace(&format!("{{{{{key}.text}}}}"), &whole);
    }
    Ok(text)
}
