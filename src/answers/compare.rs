//! Two reports, two traces, or two surveys of one kind: what differs between them.
//!
//! Behaviour counts: verdicts, outcomes, the facts of rows. Differences between the machines are shown and do not
//! count. Neither do measurements that only one side has, or that were asked in another way, because nothing follows
//! from them. Times are never compared.

mod comparison;
mod differing;
mod excuse;
mod machine;
mod matrix;
mod pair;
mod scenario;
mod survey;
mod trace;

pub use comparison::{
    CompareError, Comparison, ComparisonSide, EntryDifference, FactDifference, Only, SCHEMA, Share,
};
pub(crate) use machine::machine_facts;
pub use matrix::compare_matrices;
pub use trace::compare_traces;

use crate::survey::SurveyDocument;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};

/// What differs between two reports. With `versions`, what ran on the one libcudart in A is held against what ran on
/// the other in B.
///
/// # Errors
/// A version that a report does not have, with those that it has.
pub fn reports(
    a: &ReportView<'_>,
    b: &ReportView<'_>,
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    let sides = [a, b].map(|report| {
        let (run, machine) = (report.run, report.machine.summary());
        ComparisonSide::new(
            &run.id,
            &run.version,
            report.provenance,
            report.complete,
            machine,
        )
    });
    let (entries, machines) = (
        [scenario::entries(a), scenario::entries(b)],
        [a.machine, b.machine],
    );
    let comparison = Comparison::new("report", sides, machine::changes(machines));
    comparison.with(entries, versions, |a: &ScenarioView<'_>, b| {
        scenario::compare_scenarios([a, b], machines)
    })
}

/// The same of two surveys.
///
/// # Errors
/// Two kinds; versions where rows have none; a version that a survey does not have.
pub fn compare_surveys(
    a: &SurveyDocument,
    b: &SurveyDocument,
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    if versions.is_some()
        && [a, b]
            .iter()
            .any(|survey| !survey.kind.kind_file().compares_versions)
    {
        return Err(CompareError::Versions);
    }
    if a.kind != b.kind {
        return Err(CompareError::Kinds {
            a: a.kind.name(),
            b: b.kind.name(),
        });
    }
    let sides = [a, b].map(
        |SurveyDocument {
             header,
             provenance,
             complete,
             machine,
             ..
         }| {
            ComparisonSide::new(
                &header.id,
                &header.version,
                *provenance,
                *complete,
                machine.summary(),
            )
        },
    );
    let comparison = Comparison::new(
        a.kind.name(),
        sides,
        machine::changes([&a.machine, &b.machine]),
    );
    survey::compare_survey_rows(comparison, [a, b], versions)
}

#[cfg(test)]
mod tests;
