//! `survey mask`: the listed forms, group by group, and how the rule did with generated ones.

use super::cell::gpus;
use super::section::Section;
use super::{NamedSurvey, disagreements, documents, left_out};
use cuda_pitfalls_answers::survey::document::{Row, SurveyDocument};
use cuda_pitfalls_answers::survey::mask::{GENERATED, MaskRow, by_todays_rule};
use cuda_pitfalls_core::text::counts::tally;

pub(super) const OPENING: &str = "\
Each text was the value of `CUDA_VISIBLE_DEVICES` when a fresh process called `cuInit`. **GPUs** are NVML indices in \
the order in which CUDA numbers them. `<uuid0>` stands for the UUID of NVML's first GPU, `<uuid0:12>` for its first \
twelve characters, `<UUID0>` for the same in upper case. Where no `CUDA_DEVICE_ORDER` is given, it was `PCI_BUS_ID`.

The rule, which `mask::parse` in the library applies to any text:

1. `CUDA_DEVICE_ORDER` is `FASTEST_FIRST`, `PCI_BUS_ID` or unset. Anything else makes `cuInit` return 101, whatever the mask.
2. Without a mask all GPUs are visible. Otherwise it is split at commas and read from the left, up to the first entry that \
names no GPU. That is no error. If nothing was named by then, `cuInit` returns 100.
3. A GPU that is named twice before that end makes `cuInit` return 101.
4. The first entry decides: if it begins with `GPU-` or `MIG-`, all entries must be UUIDs, otherwise numbers.
5. A number is read as by `strtoull`: whitespace, a sign, digits; what follows is ignored. Of the 64 bits the lower 32 count.
6. A UUID is hex digits, in lower or upper case, with hyphens anywhere. Fewer than 32 must be the beginning of one GPU's, and \
nothing may follow; after the 32nd digit anything may.";

/// How many generated rows a page shows of each kind; the document has them all.
const SAMPLES: usize = 12;

pub(super) fn sections(sources: &[NamedSurvey]) -> Vec<Section> {
    // Observation and rule are apart: what was measured is compared with today's rule.
    let documents: Vec<SurveyDocument<MaskRow>> = documents(sources).into_iter().map(by_todays_rule).collect();
    let rows: Vec<&MaskRow> = documents.iter().flat_map(|document| &document.rows).collect();
    let mut sections = vec![against(&rows)];
    let groups = tally(rows.iter().map(|row| row.group.as_str()).filter(|group| *group != GENERATED));
    for (group, _) in groups {
        let mut seen = std::collections::BTreeSet::new();
        let of_group: Vec<&MaskRow> =
            rows.iter().copied().filter(|row| row.group == group && seen.insert((&row.mask, &row.order))).collect();
        sections.push(table(group.to_string(), &of_group, true));
    }
    sections.push(generated(&documents));
    sections.push(disagreements(rows.iter().copied()));
    sections.push(left_out(documents.iter().flat_map(|document| &document.left_out)));
    sections
}

/// Rows where the driver did something else than the rule says.
fn against(rows: &[&MaskRow]) -> Section {
    let wrong: Vec<&MaskRow> = rows.iter().copied().filter(|row| row.as_predicted == Some(false)).collect();
    if wrong.is_empty() {
        return Section::default();
    }
    let row =
        |row: &&MaskRow| vec![row.key(), answer(row), format!("{}: {:?}", row.predicted.status, row.predicted.gpus)];
    let title = format!("Against the rule ({})", wrong.len());
    Section::new(title, &["mask", "driver", "rule"], wrong.iter().map(row).collect(), &[0])
}

fn table(title: String, rows: &[&MaskRow], notes: bool) -> Section {
    let has_order = rows.iter().any(|row| row.order.is_some());
    let mut header = vec!["CUDA_VISIBLE_DEVICES"];
    header.extend(has_order.then_some("CUDA_DEVICE_ORDER"));
    header.extend(["cuInit", "GPUs"]);
    header.extend(notes.then_some("why it is asked"));
    let cells = |row: &&MaskRow| {
        let mut cells = vec![row.mask.as_ref().map_or_else(|| "unset".to_string(), |mask| format!("\"{mask}\""))];
        if has_order {
            cells.push(row.order.as_ref().map_or_else(String::new, |order| format!("\"{order}\"")));
        }
        cells.push(row.status.clone().unwrap_or_else(|| "?".to_string()));
        cells.push(gpus(row.gpus.as_deref(), "none"));
        if notes {
            cells.push(row.note.clone());
        }
        cells
    };
    let code: &[usize] = if has_order { &[0, 1, 2] } else { &[0, 1] };
    Section::new(title, &header, rows.iter().map(cells).collect(), code)
}

fn answer(row: &MaskRow) -> String {
    format!("{}: {}", row.status.as_deref().unwrap_or("?"), gpus(row.gpus.as_deref(), "none"))
}

/// How many generated masks the driver read as the rule says, and some of them.
fn generated(documents: &[SurveyDocument<MaskRow>]) -> Section {
    let mut text = Vec::new();
    let mut samples: Vec<&MaskRow> = Vec::new();
    for document in documents {
        let rows: Vec<&MaskRow> = document.rows.iter().filter(|row| row.group == GENERATED).collect();
        if rows.is_empty() {
            continue;
        }
        let count = |is: fn(&MaskRow) -> bool| rows.iter().filter(|row| is(row)).count();
        text.push(format!(
            "With seed {} on {} GPUs: {} masks were written by a generator of the grammar. The driver read {} as the \
             rule says and {} otherwise; {} got no clear answer. {} showed no GPU, {} one, {} more.",
            document.survey.seed,
            document.machine.gpus.len(),
            rows.len(),
            count(|row| row.as_predicted == Some(true)),
            count(|row| row.as_predicted == Some(false)),
            count(|row| row.as_predicted.is_none()),
            count(|row| row.count == Some(0)),
            count(|row| row.count == Some(1)),
            count(|row| row.count.is_some_and(|count| count > 1)),
        ));
        for wanted in [0, 1, 2] {
            let short = |row: &&&MaskRow| row.mask.as_ref().is_some_and(|mask| mask.len() <= 60);
            let alike = rows.iter().filter(short).filter(|row| row.count.map(|count| count.min(2)) == Some(wanted));
            samples.extend(alike.take(SAMPLES).copied());
        }
    }
    if text.is_empty() {
        return Section::default();
    }
    text.push("Some of them:".to_string());
    Section { text, ..table("Generated masks".to_string(), &samples, false) }
}
