//! The index of the pages, by symptom.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cuda_pitfalls::scenario::{Scenario, symptom};

use super::prose::{markdown_link, to_markdown, write_bullets, write_paragraph};
use super::{FOLDER, Pitfall};

/// Returns the page with links to all others.
pub fn index(scenarios: &[Scenario]) -> String {
    let mut out =
        "<!-- Made from scenarios/; see CONTRIBUTING.md. -->\n# Pitfalls by symptom\n".to_owned();
    write_paragraph(
        &mut out,
        "Find the symptom. The questions below it cover its possible causes. Each page has the answer, the fix, \
         the measurements with their machines, and the command to run the scenario yourself.",
    );
    write_paragraph(
        &mut out,
        "`cuda-pitfalls run stray-memory-gpu0` runs all scenarios of a symptom on your machine. The id of a \
         symptom is the end of its link below.",
    );
    let named: Vec<&symptom::Symptom> = symptom::all()
        .iter()
        .filter(|symptom| scenarios.iter().any(|scenario| has(scenario, symptom)))
        .collect();
    write_bullets(
        &mut out,
        named.iter().map(|symptom| {
            markdown_link(&to_markdown(&symptom.sentence), &format!("#{}", symptom.id))
        }),
    );
    let subjects: BTreeSet<&str> = scenarios
        .iter()
        .filter_map(|scenario| scenario.name.split('/').next())
        .collect();
    let subjects: Vec<String> = subjects
        .iter()
        .map(|subject| markdown_link(subject, subject))
        .collect();
    write_paragraph(&mut out, &format!("By subject: {}.", subjects.join(", ")));
    for symptom in named {
        by_symptom(&mut out, symptom, scenarios);
    }
    without_symptom(&mut out, scenarios);
    out
}

fn has(scenario: &Scenario, symptom: &symptom::Symptom) -> bool {
    scenario.symptoms.contains(&symptom.id)
}

/// Writes the scenarios of a symptom: first the causes, then those that only look like a cause.
fn by_symptom(out: &mut String, symptom: &symptom::Symptom, scenarios: &[Scenario]) {
    let _ = writeln!(
        out,
        "\n<a id=\"{}\"></a>\n\n## {}",
        symptom.id,
        to_markdown(&symptom.sentence)
    );
    let titles = [
        (Pitfall::Happens, None),
        (Pitfall::Harmless, Some("Ruled out as a cause:")),
        (Pitfall::Open, Some("Not measured yet:")),
    ];
    for (standing, title) in titles {
        let mut questions = Vec::new();
        for scenario in scenarios {
            if has(scenario, symptom) && Pitfall::from_expectations(scenario) == standing {
                questions.push(question(scenario));
            }
        }
        if let Some(title) = title
            && !questions.is_empty()
        {
            write_paragraph(out, title);
        }
        write_bullets(out, questions);
    }
}

fn question(scenario: &Scenario) -> String {
    markdown_link(
        &to_markdown(&scenario.question),
        &format!("{}.md", scenario.name),
    )
}

fn without_symptom(out: &mut String, scenarios: &[Scenario]) {
    let mut questions = Vec::new();
    for scenario in scenarios {
        if scenario.symptoms.is_empty() {
            questions.push(question(scenario));
        }
    }
    if !questions.is_empty() {
        out.push_str("\n## About the instrument itself\n");
    }
    write_bullets(out, questions);
}

/// Returns the path of the index, below the root of the repository.
pub fn path() -> String {
    format!("{FOLDER}/README.md")
}
