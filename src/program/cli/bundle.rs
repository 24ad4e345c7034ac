//! `bundle`: one archive for a bug report.

mod archive;
mod report;
mod trace;

pub(super) use archive::{BundleArguments, redactor};

use super::output::Outcome;
use super::stored::newest;

pub(super) fn bundle(arguments: &BundleArguments) -> Outcome {
    let arguments = &BundleArguments {
        report: newest(&arguments.report),
        ..arguments.clone()
    };
    if cuda_pitfalls_trace::is_trace(&arguments.report) {
        trace::bundle(arguments)
    } else {
        report::bundle(arguments)
    }
}
