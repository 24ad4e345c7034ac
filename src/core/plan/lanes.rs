//! Lanes: groups of a machine's GPUs that are asked at the same time. A worker whose mask names the GPUs of one group
//! touches no other (`instrument/uuid-mask-touches-no-other-gpu`), so questions about masked workers need not wait for
//! each other.

use std::time::Duration;

use super::estimate::{self, Pace};
use super::needs::unmasked;
use super::options::Options;
use super::resolve::resolve;
use crate::machine::Machine;
use crate::scenario::{Instance, Scenario};

/// A group of GPUs, and what is asked of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// UUIDs of its GPUs.
    pub gpus: Vec<String>,
    /// The names of the instances that it asks.
    pub instances: Vec<String>,
    /// How long their attempts are expected to take.
    pub expected: Duration,
}

/// This many lanes of the GPUs that may be used, each with as many neighbours as all of them can have. Remaining GPUs
/// are in none. `None` if there are fewer GPUs than lanes.
pub fn split(machine: &Machine, options: &Options, lanes: usize) -> Option<Vec<Lane>> {
    let may_be_used = |uuid: &String| options.restrict.as_ref().is_none_or(|restrict| restrict.contains(uuid));
    let usable: Vec<&String> = machine.gpus.iter().map(|gpu| &gpu.uuid).filter(|uuid| may_be_used(uuid)).collect();
    let size = usable.len().checked_div(lanes).filter(|size| *size > 0)?;
    let lane = |gpus: &[&String]| Lane { gpus: gpus.iter().copied().cloned().collect(), ..Lane::default() };
    Some(usable.chunks_exact(size).take(lanes).map(lane).collect())
}

/// Gives each instance that a lane can answer to the lane that has least to do. What sees every GPU, or may disturb
/// other processes, is left for the machine as a whole.
pub fn share_out<'a>(
    instances: impl Iterator<Item = (&'a Scenario, &'a Instance)>,
    machine: &Machine,
    options: &Options,
    pace: Pace,
    lanes: &mut [Lane],
) {
    for (scenario, instance) in instances {
        if unmasked(instance) || !scenario.hazards.is_empty() {
            continue;
        }
        let planned = |lane: &mut Lane| {
            let options = Options { restrict: Some(lane.gpus.clone()), ..options.clone() };
            let plan = resolve(scenario, instance, machine, &options).ok()?;
            Some(estimate::plan(&plan, machine.gpus.len(), pace))
        };
        let able = lanes.iter_mut().filter_map(|lane| planned(lane).map(|takes| (lane, takes)));
        if let Some((lane, takes)) = able.min_by_key(|(lane, _)| lane.expected) {
            lane.instances.push(instance.name.clone());
            lane.expected += takes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::{instance, machine, scenario};
    use crate::scenario::{Gpus, Hazard, Needs};

    fn gpus(lanes: &[Lane]) -> Vec<Vec<&str>> {
        lanes.iter().map(|lane| lane.gpus.iter().map(String::as_str).collect()).collect()
    }

    #[test]
    fn lanes_are_disjoint_and_of_one_size() {
        let lanes = split(&machine(8), &Options::default(), 3).unwrap();
        assert_eq!(gpus(&lanes), [["GPU-0", "GPU-1"], ["GPU-2", "GPU-3"], ["GPU-4", "GPU-5"]]);
        let some = Options { restrict: Some(vec!["GPU-3".into(), "GPU-1".into()]), ..Options::default() };
        assert_eq!(gpus(&split(&machine(4), &some, 2).unwrap()), [["GPU-1"], ["GPU-3"]]);
        assert_eq!(split(&machine(2), &Options::default(), 3), None);
        assert_eq!(split(&machine(0), &Options::default(), 1), None);
        assert_eq!(split(&machine(2), &Options::default(), 0), None);
    }

    #[test]
    fn a_question_is_asked_in_one_lane_that_can_answer_it() {
        let (machine, options) = (machine(4), Options::default());
        let shared = |scenario: &Scenario, lanes: usize, of: &[Gpus]| {
            let mut lanes = split(&machine, &options, lanes).unwrap();
            let named = |(place, gpus): (usize, &Gpus)| {
                let mut one = instance(&[("trap", *gpus)]);
                one.name = place.to_string();
                one
            };
            let all: Vec<Instance> = of.iter().enumerate().map(named).collect();
            let asked = all.iter().map(|instance| (scenario, instance));
            share_out(asked, &machine, &options, Pace::default(), &mut lanes);
            lanes.into_iter().map(|lane| lane.instances.join(" ")).collect::<Vec<_>>()
        };
        let one = Gpus::Masked(1);
        assert_eq!(shared(&scenario(), 2, &[one, one, one]), ["0 2", "1"]);
        // The first takes longer, so that the lane of the second gets the third too.
        assert_eq!(shared(&scenario(), 2, &[Gpus::Masked(2), one, one]), ["0", "1 2"]);
        assert_eq!(shared(&scenario(), 2, &[Gpus::All, Gpus::Masked(3)]), ["", ""]);
        let hazardous = Scenario { hazards: vec![Hazard::Fault], ..scenario() };
        assert_eq!(shared(&hazardous, 2, &[one]), ["", ""]);
        let large = Scenario { needs: Needs { gpus: 3, ..Needs::default() }, ..scenario() };
        assert_eq!(shared(&large, 2, &[one]), ["", ""]);
        assert_eq!(shared(&large, 1, &[one]), ["0"]);
    }
}
