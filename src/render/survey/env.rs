//! `survey env`: variables by the call that reads them, the earliest first.

use super::{NamedSurvey, rows_with, yes_no_unknown};
use cuda_pitfalls_answers::survey::FactRow;
use cuda_pitfalls_answers::survey::env::EnvRow;
use cuda_pitfalls_core::text::counts::listed;

pub(super) fn rows(sources: &[NamedSurvey]) -> Vec<FactRow> {
    rows_with(sources, |row: &EnvRow, _, facts| {
        let moments = row
            .moments
            .iter()
            .map(|moment| format!("before {}: {}", moment.does, yes_no_unknown(moment.effect)));
        let at_exec = format!("at exec: {}", yes_no_unknown(row.has_effect));
        facts.set("set", format!("{}={}", row.variable, row.value));
        facts.set("latched_at", row.read_at.as_deref().unwrap_or("–"));
        facts.set("when", listed(std::iter::once(at_exec).chain(moments), ""));
        facts.set("by", row.observable.as_str());
    })
}
