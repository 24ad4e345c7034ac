//! `bisect`: its start and its end.

use super::output::{Outcome, end_run, fail};
use crate::run::{self, BisectOptions};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::EnvironmentRequest;

pub(super) const ENDS: &str = "\
Exits 0 if the first bad release is known, 3 if only a range is known, or if --good is bad or --bad is good, 2 if the \
command line is invalid. Each trial installs its packages with uv into a separate environment, which is removed \
afterwards. The tested versions take precedence over what other packages require.

Example (takes about a minute; finds cuda-bindings 12.9.0):
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
