//! Estimates of the duration of attempts, from their calls and the number of GPUs.
//!
//! The model is linear and was fitted to the attempts of committed reports (2,225 cases on 1, 2 and 4 H200, driver
//! 580.159.04). It adds the cost of a process, of initializing the driver per visible GPU, of a context, and of
//! watching each GPU. The sum over many attempts is within 50 % of the measured time; a single attempt may be far from
//! it. `tests/duration.rs` compares the model with the reports.

use std::time::Duration;

use cuda_pitfalls_calls::{self as calls, CallLibrary, Effect};

use super::{CasePlan, Plan};
use crate::experiment::Step;
use crate::scenario::framework::{frameworks, other_import_ms};

/// A process: start, libraries, step barriers, end.
const PROCESS_MS: f64 = 129.0;
/// Cost of each GPU that the worker sees and that the driver initializes.
const VISIBLE_GPU_MS: f64 = 71.0;
/// Cost of each further process that makes CUDA calls.
const FRESH_PROCESS_MS: f64 = 239.0;
/// Cost of each context, up to [`MOST_CONTEXTS`]: most calls of a sequence find an existing context.
const CONTEXT_MS: f64 = 137.0;
const MOST_CONTEXTS: usize = 4;
/// Each GPU of the machine, which NVML reads at every step.
const WATCHED_GPU_MS: f64 = 32.0;
/// Time before the first attempt: finding libraries, starting the sampler.
const START_MS: f64 = 500.0;
/// Calibration, for each GPU.
const CALIBRATION_MS: f64 = 600.0;
/// Between two attempts: writing the report, reading the machine.
const BETWEEN_MS: f64 = 5.0;

const MAKES_A_CONTEXT: [&str; 6] = [
    "cudaSetDevice",
    "cudaInitDevice",
    "cuDevicePrimaryCtxRetain",
    "cuCtxCreate_v2",
    "cuCtxCreate_v3",
    "cuCtxCreate_v4",
];
const MAKES_ONE_IN_PASSING: [&str; 4] = [
    "cudaMalloc",
    "cudaFree",
    "cudaStreamCreate",
    "cudaLaunchKernel",
];

/// The speed of this machine, relative to the machine of the figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace(f64);

impl Default for Pace {
    fn default() -> Pace {
        Pace(1.0)
    }
}

impl Pace {
    /// The pace of the simulated machine, which has no driver to initialize.
    pub const SIMULATED: Pace = Pace(0.1);

    fn scaled_duration(self, ms: f64) -> Duration {
        Duration::from_secs_f64(self.0 * ms / 1000.0)
    }
}

/// Returns the duration of one attempt of a case on the machine of the figures, with this many GPUs.
pub fn attempt(case: &CasePlan, gpus: usize) -> Duration {
    let fresh = case
        .steps
        .iter()
        .filter(|step| step.has(Effect::Spawns) || step.has(Effect::Execs))
        .count();
    let calls_cuda = case
        .steps
        .iter()
        .filter_map(|step| calls::find(&step.call))
        .any(|call| {
            let is_of_cuda = !matches!(
                call.library,
                CallLibrary::Nvml | CallLibrary::Libc | CallLibrary::Harness
            );
            is_of_cuda || call.starts_process()
        });
    let is_refused = case.steps.iter().any(Step::refuses_something);
    let visible = match (
        &case.mask,
        case.env.get("CUDA_VISIBLE_DEVICES").map(String::as_str),
    ) {
        (_, Some("")) => 0,
        // A denied call usually ends the driver's start, and NVML does not need it.
        _ if is_refused || !calls_cuda && case.python.is_none() => 0,
        (Some(mask), _) => mask.len(),
        (None, _) => gpus,
    };
    let contexts = match case
        .steps
        .iter()
        .filter(|step| MAKES_A_CONTEXT.contains(&step.call.as_str()))
        .count()
    {
        0 => usize::from(
            case.steps
                .iter()
                .any(|step| MAKES_ONE_IN_PASSING.contains(&step.call.as_str())),
        ),
        several => several.min(MOST_CONTEXTS),
    };
    let ms = PROCESS_MS
        + VISIBLE_GPU_MS * visible as f64
        + FRESH_PROCESS_MS * fresh as f64
        + CONTEXT_MS * contexts as f64
        + WATCHED_GPU_MS * gpus as f64
        + case
            .python
            .as_ref()
            .map_or(0.0, |python| import_ms(&python.needs));
    Pace::default().scaled_duration(ms)
}

/// Returns the duration of the slowest import among the packages, in milliseconds.
fn import_ms(needs: &[String]) -> f64 {
    let needed = frameworks()
        .iter()
        .filter(|framework| needs.iter().any(|need| need.starts_with(&framework.name)));
    needed
        .filter_map(|framework| framework.import_ms)
        .fold(other_import_ms(), f64::max)
}

/// Returns the duration of all attempts of a plan.
pub fn plan(plan: &Plan, gpus: usize, pace: Pace) -> Duration {
    let round: Duration = plan.cases.iter().map(|case| attempt(case, gpus)).sum();
    let between = BETWEEN_MS * plan.cases.len() as f64;
    pace.scaled_duration((round.as_secs_f64() * 1000.0 + between) * f64::from(plan.repeat))
}

/// Returns the duration of a run of these plans, including calibration.
pub fn run<'a>(plans: impl IntoIterator<Item = &'a Plan>, gpus: usize, pace: Pace) -> Duration {
    let attempts: Duration = plans
        .into_iter()
        .map(|planned| plan(planned, gpus, pace))
        .sum();
    pace.scaled_duration(START_MS + CALIBRATION_MS * (gpus + 1) as f64) + attempts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::{instance, machine, scenario};
    use crate::plan::{Options, resolve_plan};
    use crate::scenario::Gpus;

    fn planned(cases: &[(&str, Gpus)], gpus: usize, repeat: u32) -> Plan {
        let options = Options {
            repeat: Some(repeat),
            ..Options::default()
        };
        resolve_plan(&scenario(), &instance(cases), &machine(gpus), &options).unwrap()
    }

    #[test]
    fn more_gpus_contexts_processes_and_attempts_take_longer() {
        let [small, more_visible, more_gpus, more_attempts] =
            [(1, 2, 1), (2, 2, 1), (1, 4, 1), (1, 2, 3)].map(|(masked, gpus, repeat)| {
                run(
                    [&planned(&[("trap", Gpus::Masked(masked))], gpus, repeat)],
                    gpus,
                    Pace::default(),
                )
            });
        assert!(more_visible > small && more_gpus > small && more_attempts > small);
        let mut plan = planned(&[("trap", Gpus::Masked(1))], 2, 1);
        let before = attempt(&plan.cases[0], 2);
        plan.cases[0].steps[0].call = "cudaSetDevice".into();
        let context = attempt(&plan.cases[0], 2);
        assert_eq!(context - before, Duration::from_millis(137));
        plan.cases[0].steps[0].call = "execve".into();
        assert!(attempt(&plan.cases[0], 2) > context);
    }

    #[test]
    fn a_mask_that_hides_all_gpus_spares_their_time() {
        let mut plan = planned(&[("trap", Gpus::All)], 2, 1);
        let all = attempt(&plan.cases[0], 2);
        plan.cases[0]
            .env
            .insert("CUDA_VISIBLE_DEVICES".into(), String::new());
        assert_eq!(all - attempt(&plan.cases[0], 2), Duration::from_millis(142));
    }

    #[test]
    fn a_slow_machine_takes_longer() {
        let plan = planned(&[("trap", Gpus::Masked(1))], 2, 3);
        let (usual, slow) = (
            super::plan(&plan, 2, Pace::default()),
            super::plan(&plan, 2, Pace(2.0)),
        );
        assert!(
            slow.abs_diff(usual * 2) < Duration::from_millis(1),
            "{usual:?} {slow:?}"
        );
    }
}
