//! `survey env`: by the call at which a variable is read, from the earliest on.

use super::cell::yes;
use super::section::Section;
use super::{NamedSurvey, disagreements, documents, left_out, unmeasured};
use cuda_pitfalls_answers::survey::env::EnvRow;

pub(super) const OPENING: &str = "\
Each variable was set in the environment at exec, then by `setenv` right before one step after the other of a \
process's life. **Read at** is the latch point: the last of these moments at which setting it still took \
effect. Set after that step, it has none. **By** is the observation that shows the effect.";

pub(super) fn sections(sources: &[NamedSurvey]) -> Vec<Section> {
    let documents = documents::<EnvRow>(sources);
    let rows: Vec<&EnvRow> = documents.iter().flat_map(|document| &document.rows).collect();
    let section = |title: &str, want: &dyn Fn(&EnvRow) -> bool| {
        table(
            title,
            &rows.iter().copied().filter(|row| row.standing.unmeasured.is_none() && want(row)).collect::<Vec<_>>(),
        )
    };
    vec![
        section("Read at a latch point", &|row| row.read_at.is_some()),
        section("Without effect here", &|row| row.has_effect == Some(false)),
        section("Not determined", &|row| row.read_at.is_none() && row.has_effect != Some(false)),
        disagreements(rows.iter().copied()),
        unmeasured("Asked and not measured".to_string(), rows.iter().copied()),
        left_out(documents.iter().flat_map(|document| &document.left_out)),
    ]
}

fn table(title: &str, rows: &[&EnvRow]) -> Section {
    let row = |row: &&EnvRow| {
        let moments = row.moments.iter().map(|moment| format!("before {}: {}", moment.does, yes(moment.effect)));
        let moments: Vec<String> =
            std::iter::once(format!("at exec: {}", yes(row.has_effect))).chain(moments).collect();
        vec![
            format!("{}={}", row.variable, row.value),
            row.read_at.clone().unwrap_or_else(|| "–".to_string()),
            moments.join(", "),
            row.observable.clone(),
        ]
    };
    let header = ["variable", "read at (latch point)", "took effect when set", "by"];
    Section::new(title, &header, rows.iter().map(row).collect(), &[0])
}
