//! `bisect`: how it ends, and its start.

use super::output::{Outcome, end_run, fail};
use crate::run::{self, BisectOptions};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::EnvironmentRequest;

pub(super) const ENDS: &str = "\
Exits 0 if the first bad release is known, 3 if it is one of several of which nothing can be said, or if the ends are \
not as they were said to be, 2 if the command line is not valid. Packages are installed by uv, each trial in an \
environment of its own, which is removed afterwards. The versions of the packages in question hold whatever other \
packages ask for.

Example, of about a minute, which finds cuda-bindings 12.9.0:
  cuda-pitfalls bisect --package cuda-bindings --good 12.8.0 --bad 13.0.0 --forbid cuinit -- \\
    python -c 'from cuda.bindings import runtime; runtime.cudaDriverGetVersion()'";

pub(super) fn run_bisect(options: BisectOptions) -> Outcome {
    let BisectOptions {
        package,
        good,
        bad,
        json,
        ..
    } = &options;
    if package.len() != good.len() || package.len() != bad.len() {
        return Err(fail(
            "each --package needs one --good and one --bad, in the same order",
            Exit::Usage,
            *json,
        ));
    }
    for (package, version) in package.iter().zip(good).chain(package.iter().zip(bad)) {
        EnvironmentRequest::parse(&format!("{package}=={version}"))
            .map_err(|error| fail(error, Exit::Usage, *json))?;
    }
    end_run(run::start_bisect(&options), *json)
}
