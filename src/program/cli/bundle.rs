//! `bundle`: one archive for a bug report, made from a report.

mod archive;
mod report;

pub(super) use archive::{BundleArguments, host_redactor};

use super::output::{Outcome, fail};
use super::stored::newest_run;
use cuda_pitfalls_answers::exit::Exit;

pub(super) fn run_bundle(arguments: &BundleArguments) -> Outcome {
    let arguments = &BundleArguments {
        report: newest_run(&arguments.report),
        ..arguments.clone()
    };
    if arguments.name.is_none() && !arguments.report.exists() {
        let path = arguments.report.display();
        let why = format!(
            "there is no report `{path}`; run the scenario first: `cuda-pitfalls run NAME`, then `cuda-pitfalls bundle reports NAME`"
        );
        return Err(fail(why, Exit::Usage, false));
    }
    if cuda_pitfalls_trace::is_trace(&arguments.report) {
        let path = arguments.report.display();
        let why = format!(
            "{path} is a trace; use `cuda-pitfalls render {path} --as markdown` to write text for an issue"
        );
        return Err(fail(why, Exit::Usage, false));
    }
    report::bundle_report(arguments)
}
