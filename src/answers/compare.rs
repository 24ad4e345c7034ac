//! Differences between two reports, two traces, or two surveys of the same kind.
//!
//! Differences in behavior count: verdicts, outcomes, the facts of rows. Differences between the machines are listed
//! and do not count. Measurements that only one side has, or that were made differently, do not count either, because
//! nothing follows from them. Times are never compared.

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

/// Compares two reports. With `versions`, results on the first libcudart in A are compared with results on the second
/// one in B.
///
/// # Errors
/// Returns an error if a report has no results for its version. The error lists the versions that the report has.
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

/// Compares two surveys.
///
/// # Errors
/// Returns an error if the kinds of the surveys differ, if versions are given for rows without a version, or if a
/// survey has no results for its version.
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
