//! Pages for people: a scenario with its measurements, for readers who have the symptom, and an index by symptom.
//!
//! Pure: scenarios and reports become Markdown. [`crate::documents`] reads the reports and writes the pages.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod index;
mod measured;
mod order;
mod prose;
mod showed;
mod since;
mod values;

pub use index::{index, path as index_path};
pub use measured::{
    Measurement, answer_bases, attempts_counted, case_attempts, report_measurements,
};

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cuda_pitfalls::known::{Known, KnownEntry};
use cuda_pitfalls::releases::LineReleases;
use cuda_pitfalls::render::versions;
use cuda_pitfalls::scenario::{Check, Expected, Instance, Needs, Scenario};

use self::measured::Reference;
pub(crate) use self::prose::to_markdown;
use self::prose::{
    capitalize_first, code, escape_text, markdown_link, value, write_bullets, write_paragraph,
};

/// The folder of the pages, below the root of the repository.
pub const FOLDER: &str = "docs/pitfalls";

/// Returns the path of a scenario's page, below the root of the repository.
pub fn path(scenario: &Scenario) -> String {
    format!("{FOLDER}/{}.md", scenario.name)
}

/// Existence of the pitfall, according to the expectations of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pitfall {
    /// On some machine at least.
    Happens,
    /// On no machine that was measured.
    Harmless,
    /// Not measured yet.
    Open,
}

impl Pitfall {
    fn from_expectations(scenario: &Scenario) -> Pitfall {
        let mut expected = scenario
            .instances
            .iter()
            .flat_map(|instance| &instance.expect)
            .peekable();
        match (
            expected.peek().is_some(),
            expected.any(|expectation| expectation.verdict == Expected::Reproduced),
        ) {
            (_, true) => Pitfall::Happens,
            (true, false) => Pitfall::Harmless,
            (false, false) => Pitfall::Open,
        }
    }
}

/// Returns the page of a scenario, with the measurements of this and other scenarios, and the results of lines in
/// releases.
pub fn page(
    scenario: &Scenario,
    measured: &[Measurement],
    asked: &[LineReleases],
    known: &Known,
) -> String {
    let own: Vec<&Measurement> = measured
        .iter()
        .filter(|measurement| measurement.part.scenario == scenario.name)
        .collect();
    let reference = Reference::new(scenario, &own);
    let Some(instance) = reference.instance(scenario) else {
        return Default::default();
    };
    let standing = Pitfall::from_expectations(scenario);
    let mut out = format!(
        "<!-- Made from scenarios/{}.toml and reports/; see CONTRIBUTING.md. -->\n",
        scenario.name
    );
    let _ = writeln!(out, "# {}", to_markdown(&scenario.question));
    let shown = reference.shown_measurement();
    answer(&mut out, scenario, standing, known);
    write_question(&mut out, scenario, instance, standing);
    why(&mut out, scenario);
    write_twin(&mut out, scenario, known);
    order::write_orders(&mut out, scenario, instance, standing, shown);
    since::write_versions(&mut out, scenario, &own, asked);
    measured::write_machines(&mut out, scenario, &own);
    showed::write_observations(&mut out, scenario, &reference);
    values::write_values(&mut out, scenario, &own, &reference);
    write_sources(&mut out, scenario);
    run(&mut out, scenario);
    out
}

/// Writes the part that most readers look for: the answer and the code to write.
fn answer(out: &mut String, scenario: &Scenario, standing: Pitfall, known: &Known) {
    let answer = if scenario.answer.is_empty() {
        "Not measured yet."
    } else {
        &scenario.answer
    };
    write_paragraph(out, &format!("**Short answer.** {}", to_markdown(answer)));
    if !scenario.workaround.is_empty() {
        let doubt = if standing == Pitfall::Open {
            "Not measured yet: "
        } else {
            ""
        };
        write_paragraph(
            out,
            &format!(
                "**What to write.** {doubt}{}",
                to_markdown(&scenario.workaround)
            ),
        );
    }
    let met = scenario
        .symptoms
        .iter()
        .filter_map(|id| known.entry(&format!("symptom/{id}")));
    let met: Vec<String> = met
        .map(|found| link_to(found, &found.sentence, scenario))
        .collect();
    if !met.is_empty() {
        write_paragraph(out, &format!("Symptoms: {}.", met.join("; ")));
    }
}

/// Writes the question, what the file calls the effect, and the common belief.
fn write_question(out: &mut String, scenario: &Scenario, instance: &Instance, standing: Pitfall) {
    let (title, order, shows) = match standing {
        Pitfall::Happens => ("What you see", "The usual order (trap)", "Its effect"),
        Pitfall::Harmless => (
            "Tested and not seen",
            "The tested order (trap)",
            "Its effect would be",
        ),
        Pitfall::Open => (
            "What to look for",
            "The order to test (trap)",
            "Its effect would be",
        ),
    };
    let _ = writeln!(out, "\n## {title}");
    if let Some(trap) = instance.cases.iter().find(|case| case.name == "trap") {
        write_paragraph(
            out,
            &format!("{order}: {}. {shows}:", to_markdown(&trap.does)),
        );
    }
    write_bullets(out, instance.effect.iter().map(effect));
    write_paragraph(
        out,
        &format!("Common belief: “{}”", to_markdown(&scenario.belief)),
    );
}

fn effect(check: &Check) -> String {
    let words = match &check.facts.exit {
        Some(exit) => capitalize_first(&exit.sentence().replace("the worker", "the process")),
        None => {
            let facts: Vec<String> = check
                .facts
                .sentences()
                .iter()
                .map(|fact| to_markdown(fact))
                .collect();
            format!("After {}: {}", code(&check.at), facts.join(", and "))
        }
    };
    match versions::condition_words(&check.when, value) {
        Some(condition) => format!("{words} ({condition})."),
        None => format!("{words}."),
    }
}

/// Writes the comment at the top of the file and, if no version decides, the reasons of the verdicts.
fn why(out: &mut String, scenario: &Scenario) {
    let expect = scenario
        .instances
        .first()
        .map(|instance| instance.expect.as_slice())
        .unwrap_or_default();
    let reasons = if versions::has_versioned(expect) {
        Vec::new()
    } else {
        since::expectation_reasons(expect)
    };
    if scenario.why.is_empty() && reasons.is_empty() {
        return;
    }
    out.push_str("\n## Why\n");
    if !scenario.why.is_empty() {
        write_paragraph(out, &to_markdown(&scenario.why));
    }
    write_bullets(out, reasons);
}

fn write_twin(out: &mut String, scenario: &Scenario, known: &Known) {
    if let Some(twin) = scenario.twin.as_ref().and_then(|twin| known.entry(twin)) {
        write_paragraph(
            out,
            &format!(
                "The same pitfall with CUDA calls only: {}.",
                link_to(twin, &twin.id, scenario)
            ),
        );
    }
}

/// Returns a link from the page of a scenario to that of a known entry.
fn link_to(known: &KnownEntry, words: &str, from: &Scenario) -> String {
    let up = "../".repeat(from.name.matches('/').count());
    markdown_link(
        &to_markdown(words),
        &known.page.replace(&format!("{FOLDER}/"), &up),
    )
}

fn write_sources(out: &mut String, scenario: &Scenario) {
    if scenario.sources.is_empty() {
        return;
    }
    out.push_str("\n## Sources\n\n");
    for source in &scenario.sources {
        let is_link = source.starts_with("https://") && !source.contains([' ', '<', '>']);
        let _ = writeln!(
            out,
            "- {}",
            if is_link {
                format!("<{source}>")
            } else {
                to_markdown(source)
            }
        );
    }
}

fn run(out: &mut String, scenario: &Scenario) {
    let allow: String = scenario
        .hazards
        .iter()
        .map(|hazard| format!(" --allow {}", hazard.name()))
        .collect();
    out.push_str("\n## Run it yourself\n\n");
    let _ = writeln!(
        out,
        "```sh\ncuda-pitfalls run {}{allow}\n```",
        escape_text(&scenario.name)
    );
    let up = "../".repeat(scenario.name.matches('/').count() + 2);
    let file = format!("scenarios/{}.toml", scenario.name);
    let first = scenario
        .instances
        .first()
        .map(|instance| instance.cases.as_slice())
        .unwrap_or_default();
    let packages: BTreeSet<&String> = first
        .iter()
        .filter_map(|case| case.python.as_ref())
        .flat_map(|python| &python.needs)
        .collect();
    let packages: String = packages
        .iter()
        .map(|package| format!(", {}", to_markdown(package)))
        .collect();
    let subject = if scenario.has_python_lines() {
        "lines"
    } else {
        "calls"
    };
    let file = markdown_link(&file, &format!("{up}{file}"));
    let words = format!(
        "Requires {}{packages}. The {subject} and checks are in {file}.",
        needs(&scenario.needs)
    );
    write_paragraph(out, &words);
}

fn needs(needs: &Needs) -> String {
    let mut all = vec![match needs.gpus {
        0 => "no GPU".to_owned(),
        1 => "1 GPU".to_owned(),
        gpus => format!("{gpus} GPUs"),
    }];
    let ranges = [
        ("driver", &needs.driver),
        ("libcudart", &needs.libcudart),
        ("compute capability", &needs.compute_capability),
    ];
    all.extend(
        ranges
            .iter()
            .filter_map(|(name, range)| Some(format!("{name} {}", range.as_ref()?))),
    );
    all.extend(needs.root.then(|| "root".to_owned()));
    all.extend(
        needs
            .peer_access
            .then(|| "GPUs with peer access to each other".to_owned()),
    );
    to_markdown(&all.join(", "))
}
