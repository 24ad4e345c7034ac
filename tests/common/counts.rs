//! Comparison of the calls of workers with the listed ones, by the counts of a trace that ran at the same time.

use cuda_pitfalls::report::Report;
use cuda_pitfalls::trace::{CallCount, Trace};
use cuda_pitfalls_calls::{self as calls, CallLibrary};

/// Driver calls that the worker makes on its own account after each step.
const PROBES: [&str; 5] = [
    "cuDeviceGetCount",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxGetState",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
];

/// Calls of libcuda that NVML makes in the same process: once when it is initialized, and for its own CUDA version.
const OF_NVML: [&str; 2] = ["cuGetExportTable", "cuDriverGetVersion"];

/// Number of attempts and counts that were compared, and the differences.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) attempts: usize,
    pub(crate) counts: usize,
    pub(crate) wrong: Vec<String>,
}

/// Compares the counts of each attempt's process with its steps. Attempts are left out if they start processes, which
/// have separate counts, or call libraries that make driver calls themselves.
pub(crate) fn compare(report: &Report, trace: &Trace) -> Compared {
    let mut compared = Compared::default();
    for scenario in &report.scenarios {
        let Some(plan) = &scenario.plan else { continue };
        for case in &scenario.cases {
            let steps = &plan
                .cases
                .iter()
                .find(|of| of.name == case.name)
                .expect("a case")
                .steps;
            let libraries: Vec<CallLibrary> = steps
                .iter()
                .filter_map(|step| calls::find(&step.call))
                .map(|call| call.library)
                .collect();
            let is_apart = |library: &CallLibrary| {
                ![CallLibrary::Driver, CallLibrary::Nvml, CallLibrary::Harness].contains(library)
            };
            let loads = steps.iter().any(|step| step.call == "dlopen");
            if loads
                || libraries.iter().any(is_apart)
                || steps.iter().any(|step| step.starts_process())
            {
                continue;
            }
            let has_nvml = libraries.contains(&CallLibrary::Nvml);
            for attempt in &case.attempts {
                compared.attempts += 1;
                let counts = trace
                    .counts
                    .iter()
                    .find(|counts| counts.pid == attempt.recording.pid);
                let counted = counts
                    .map(|counts| counts.calls.clone())
                    .unwrap_or_default();
                let of_driver = steps.iter().filter(|step| {
                    calls::find(&step.call).is_some_and(|call| call.library == CallLibrary::Driver)
                });
                let absent = of_driver.filter(|step| !counted.contains_key(&step.call));
                compared.wrong.extend(
                    absent.map(|step| format!("{} {}: no {}", scenario.name, case.name, step.call)),
                );
                for (name, CallCount { calls: made, .. }) in &counted {
                    compared.counts += 1;
                    let listed = steps.iter().filter(|step| step.call == *name).count() as u64;
                    let is_more_allowed = PROBES.contains(&name.as_str())
                        || (has_nvml && OF_NVML.contains(&name.as_str()));
                    if *made != listed && !(is_more_allowed && *made > listed) {
                        let place = format!("{} {}", scenario.name, case.name);
                        compared
                            .wrong
                            .push(format!("{place}: {name} {made} times, listed {listed}"));
                    }
                }
            }
        }
    }
    compared
}
