//! `survey mask`: the listed forms, group by group, and the results of the rule for generated ones.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::section::Section;
use super::table::table;
use super::{NamedSurvey, SurveyPage, gpus, rows_with};
use cuda_pitfalls_answers::survey::mask::{GENERATED, MaskRow};
use cuda_pitfalls_answers::survey::{FactRow, KindRow, SectionForm};

/// Number of generated rows that a page shows of each sort; the document has them all.
const SAMPLES: usize = 12;

pub(super) fn rows(sources: &[NamedSurvey]) -> Vec<FactRow> {
    let mut rows = rows_with(sources, |row: &MaskRow, _, facts| {
        let status = row.status.as_deref().unwrap_or("?");
        let rule = Vec::<u32>::deserialize(facts.fact("predicted.gpus")).ok();
        let rule = format!(
            "{}: {}",
            facts.fact("predicted.status").as_str().unwrap_or("?"),
            gpus(rule.as_deref(), "none")
        );
        facts.set("text", row.key());
        facts.set(
            "answer",
            format!("{status}: {}", gpus(row.gpus.as_deref(), "none")),
        );
        facts.set("rule", rule);
        facts.set(
            "mask_set",
            row.mask
                .as_ref()
                .map_or_else(|| "unset".to_string(), |mask| format!("\"{mask}\"")),
        );
        facts.set(
            "order_set",
            row.order
                .as_ref()
                .map_or_else(String::new, |order| format!("\"{order}\"")),
        );
        facts.set("returned", status);
        facts.set("is_generated", row.group == GENERATED);
    });
    let mut known = BTreeSet::new();
    for row in &mut rows {
        let is_new = known.insert((row.fact("group").to_string(), row.question.clone()));
        row.set("is_again", !is_new);
    }
    rows
}

/// Returns the number of generated masks that the driver read as the rule predicts, and some of them.
pub(super) fn generated_sections(page: &SurveyPage<'_>, form: &SectionForm) -> Vec<Section> {
    let (mut text, mut samples) = (Vec::new(), Vec::new());
    let mut rest = page.rows.as_slice();
    for document in page.sources.iter().map(|source| &source.survey) {
        let (own, after) = rest.split_at(document.rows.len().min(rest.len()));
        rest = after;
        let rows: Vec<&FactRow> = own
            .iter()
            .filter(|row| row.fact_equals("group", GENERATED))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let count = |fact: &str, value: &str| {
            rows.iter()
                .filter(|row| row.fact_equals(fact, value))
                .count()
        };
        let of_count = |wanted: u64| {
            rows.iter().filter(move |row| {
                row.fact("count").as_u64().map(|count| count.min(2)) == Some(wanted)
            })
        };
        text.push(format!(
            "With seed {} on {} GPUs: {} masks were generated from the grammar. The driver read {} as the rule predicts and {} differently; {} gave no clear result. {} showed no GPU, {} showed one and {} showed more.",
            document.header.seed,
            document.machine.gpus.len(),
            rows.len(),
            count("as_predicted", "true"),
            count("as_predicted", "false"),
            count("as_predicted", "null"),
            of_count(0).count(),
            of_count(1).count(),
            of_count(2).count(),
        ));
        for wanted in [0, 1, 2] {
            samples.extend(
                of_count(wanted)
                    .filter(|row: &&&FactRow| {
                        row.fact("mask")
                            .as_str()
                            .is_some_and(|mask| mask.len() <= 60)
                    })
                    .take(SAMPLES)
                    .copied(),
            );
        }
    }
    if text.is_empty() {
        return Vec::new();
    }
    text.push("Some of them:".to_string());
    vec![Section {
        text,
        ..table(page.file, form, &samples)
    }]
}
