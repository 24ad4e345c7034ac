//! `bundle`: one archive for a bug report.

mod archive;
mod report;
mod trace;

pub(super) use archive::{BundleArguments, host_redactor};

use super::output::Outcome;
use super::stored::newest_run;

pub(super) fn run_bundle(arguments: &BundleArguments) -> Outcome {
    let arguments = &BundleArguments {
        report: newest_run(&arguments.report),
        ..arguments.clone()
    };
    if cuda_pitfalls_trace::is_trace(&arguments.report) {
        trace::bundle_trace(arguments)
    } else {
        report::bundle_report(arguments)
    }
}
