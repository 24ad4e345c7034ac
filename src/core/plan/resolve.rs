//! Making a plan: choosing GPUs, masks and the number of attempts.

use crate::machine::{Machine, Runtime};
use crate::scenario::{Case, Gpus, Hazard, Instance, Scenario};

use super::fill::Filler;
use super::needs::{allowed_gpus, first_unmet, has_unmasked_case, wanted};
use super::options::{Options, Unmet};
use super::{CasePlan, Plan};

/// Returns the plan for one instance of a scenario on this machine.
///
/// # Errors
/// Returns the first need that the machine does not meet.
pub fn resolve_plan(
    scenario: &Scenario,
    instance: &Instance,
    machine: &Machine,
    options: &Options,
) -> Result<Plan, Unmet> {
    resolve_as(scenario, instance, machine, options, None)
}

/// Returns the plan like [`resolve_plan`], with the GPUs in the order of an earlier plan if it was free to choose.
fn resolve_as(
    scenario: &Scenario,
    instance: &Instance,
    machine: &Machine,
    options: &Options,
    then: Option<&Plan>,
) -> Result<Plan, Unmet> {
    if let Some(unmet) = first_unmet(scenario, std::slice::from_ref(instance), machine, options) {
        return Err(unmet);
    }
    let (mut gpus, used_gpus) = choose_gpus(scenario, instance, machine, options);
    let is_free = !has_unmasked_case(instance)
        && then.is_some_and(|then| gpus.iter().all(|uuid| then.gpus.contains(uuid)));
    if let Some(then) = then.filter(|then| is_free && then.gpus.len() == gpus.len()) {
        gpus.clone_from(&then.gpus);
    }
    let filler = Filler {
        gpus: &gpus,
        inventory: &machine.gpus,
    };
    let cases = instance
        .cases
        .iter()
        .map(|case| plan_case(case, &filler))
        .collect::<Result<Vec<_>, _>>()?;
    let repeat = if options.quick {
        1
    } else {
        options.repeat.unwrap_or(scenario.repeat)
    };
    Ok(Plan {
        repeat: repeat.max(1),
        planned: None,
        step_timeout_ms: scenario.step_timeout_ms,
        timeout_ms: scenario.timeout_ms,
        used_gpus,
        needs: scenario.needs.clone(),
        hazards: scenario.hazards.clone(),
        parameters: instance.values.clone(),
        nondeterministic: scenario.nondeterministic,
        effect: filler.fill_checks(&instance.effect)?,
        expect: instance.expect.clone(),
        cases,
        gpus,
    })
}

/// Returns the plan that a file yields for an instance on the machine of a stored report. All hazards are allowed,
/// whatever that run allowed. `then` is the plan of that run, with the number of attempts and the GPUs. If it is
/// `None`, they come from the file.
pub fn again(
    scenario: &Scenario,
    instance: &str,
    machine: &Machine,
    libcudart: Option<&Runtime>,
    then: Option<&Plan>,
) -> Option<Plan> {
    let instance = scenario
        .instances
        .iter()
        .find(|known| known.name == instance)?;
    let (allow, libcudart) = (Hazard::ALL.to_vec(), libcudart.cloned());
    let options = Options {
        allow,
        libcudart,
        root: true,
        ..Options::default()
    };
    let mut plan = resolve_as(scenario, instance, machine, &options, then).ok()?;
    if let Some(then) = then {
        (plan.repeat, plan.planned) = (then.repeat, then.planned);
    }
    Some(plan)
}

/// Returns all GPUs in the plan's order, and the number of used ones.
fn choose_gpus(
    scenario: &Scenario,
    instance: &Instance,
    machine: &Machine,
    options: &Options,
) -> (Vec<String>, usize) {
    let mut places: Vec<usize> = (0..machine.gpus.len()).collect();
    let mut used = places.len();
    // A worker without a mask may use any GPU, so there is nothing to choose. A question about visibility needs NVML
    // order.
    if !has_unmasked_case(instance) {
        let mut chosen = allowed_gpus(machine, options);
        chosen.truncate(wanted(scenario, instance));
        used = chosen.len();
        places.retain(|place| !chosen.contains(place));
        chosen.append(&mut places);
        places = chosen;
    }
    let gpus = places
        .into_iter()
        .filter_map(|place| machine.gpus.get(place))
        .map(|gpu| gpu.uuid.clone())
        .collect();
    (gpus, used)
}

fn plan_case(case: &Case, filler: &Filler) -> Result<CasePlan, Unmet> {
    let mut env = case.env.clone();
    filler.fill_environment(&mut env)?;
    let mask = match case.gpus {
        Gpus::All => {
            // Without this, CUDA would order different GPUs by speed, and its device 0 might not be `gpu0`, NVML's
            // first GPU.
            env.entry("CUDA_DEVICE_ORDER".to_string())
                .or_insert_with(|| "PCI_BUS_ID".to_string());
            None
        }
        Gpus::Masked(count) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            Some(filler.gpus.iter().take(count).cloned().collect())
        }
    };
    Ok(CasePlan {
        name: case.name.clone(),
        does: case.does.clone(),
        mask,
        env,
        probes: case.probes,
        python: case.python.clone(),
        steps: case
            .steps
            .iter()
            .map(|step| filler.step(step))
            .collect::<Result<_, _>>()?,
        expect: filler.fill_checks(&case.expect)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::{instance, machine, scenario};
    use crate::verdict::Reason;

    fn plan(cases: &[(&str, Gpus)], gpus: usize, options: &Options) -> Result<Plan, Unmet> {
        resolve_plan(&scenario(), &instance(cases), &machine(gpus), options)
    }

    #[test]
    fn busy_gpus_are_taken_last_and_the_others_follow_in_nvml_order() {
        let options = Options {
            busy: vec!["GPU-0".into(), "GPU-2".into()],
            ..Options::default()
        };
        let plan = plan(
            &[("trap", Gpus::Masked(3)), ("control", Gpus::Masked(1))],
            5,
            &options,
        )
        .unwrap();
        assert_eq!(plan.gpus, ["GPU-1", "GPU-3", "GPU-4", "GPU-0", "GPU-2"]);
        assert_eq!(plan.used_gpus, 3);
        assert_eq!(
            plan.cases[0].mask.as_deref().unwrap(),
            ["GPU-1", "GPU-3", "GPU-4"]
        );
        assert_eq!(plan.cases[1].mask.as_deref().unwrap(), ["GPU-1"]);
    }

    #[test]
    fn without_a_mask_every_gpu_is_used_in_nvml_order() {
        let options = Options {
            busy: vec!["GPU-0".into()],
            ..Options::default()
        };
        let plan = plan(
            &[("trap", Gpus::All), ("control", Gpus::Masked(1))],
            3,
            &options,
        )
        .unwrap();
        assert_eq!((plan.gpus.len(), plan.used_gpus), (3, 3));
        assert_eq!(plan.gpus[0], "GPU-0");
        assert_eq!(plan.cases[0].mask, None);
        assert_eq!(plan.cases[0].env["CUDA_DEVICE_ORDER"], "PCI_BUS_ID");
        assert_eq!(plan.cases[1].env.get("CUDA_DEVICE_ORDER"), None);
    }

    #[test]
    fn the_users_choice_of_gpus_is_kept_to() {
        let options = Options {
            restrict: Some(vec!["GPU-2".into(), "GPU-1".into()]),
            ..Options::default()
        };
        let masked = plan(&[("trap", Gpus::Masked(2))], 3, &options).unwrap();
        assert_eq!(masked.gpus, ["GPU-1", "GPU-2", "GPU-0"]);
        assert_eq!(masked.used_gpus, 2);
        assert_eq!(
            plan(&[("trap", Gpus::All)], 3, &options)
                .unwrap_err()
                .reason,
            Reason::Restricted
        );
        assert_eq!(
            plan(&[("trap", Gpus::Masked(3))], 3, &options)
                .unwrap_err()
                .reason,
            Reason::TooFewGpus
        );
        assert!(plan(&[("trap", Gpus::All)], 2, &Options::default()).is_ok());
    }

    #[test]
    fn repeat_comes_from_the_file_unless_said_otherwise() {
        let repeat = |options: Options| {
            plan(&[("trap", Gpus::Masked(1))], 1, &options)
                .unwrap()
                .repeat
        };
        assert_eq!(repeat(Options::default()), 5);
        assert_eq!(
            repeat(Options {
                repeat: Some(8),
                ..Options::default()
            }),
            8
        );
        assert_eq!(
            repeat(Options {
                repeat: Some(8),
                quick: true,
                ..Options::default()
            }),
            1
        );
        assert_eq!(
            repeat(Options {
                repeat: Some(0),
                ..Options::default()
            }),
            1
        );
    }

    #[test]
    fn templates_in_the_environment_are_filled_in() {
        let mut instance = instance(&[("trap", Gpus::Masked(1))]);
        instance.cases[0]
            .env
            .insert("CUDA_VISIBLE_DEVICES".into(), "${gpu1}".into());
        let plan = resolve_plan(&scenario(), &instance, &machine(2), &Options::default()).unwrap();
        assert_eq!(plan.cases[0].env["CUDA_VISIBLE_DEVICES"], "GPU-1");
        let unmet =
            resolve_plan(&scenario(), &instance, &machine(1), &Options::default()).unwrap_err();
        assert_eq!(unmet.reason, Reason::TooFewGpus);
    }
}
