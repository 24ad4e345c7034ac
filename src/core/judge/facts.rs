//! The facts about a machine that the conditions of expectations use.

use std::collections::BTreeMap;

use crate::machine::{Interpreter, Machine, Runtime};
use crate::plan::Plan;
use crate::scenario::python::unmet_requirement;
use crate::scenario::{Range, Scalar, When};
use crate::verdict::Provenance;

/// The facts that `when` can test, and the provenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The driver's version.
    pub driver_version: Option<String>,
    /// The version of the libcudart in use.
    pub libcudart: Option<String>,
    /// UUIDs of the machine's GPUs in NVML order.
    pub gpus: Vec<String>,
    /// The compute capability of the plan's `gpu0`.
    pub compute_capability: Option<String>,
    /// The interpreter that runs Python lines, with its versions of the packages that scenarios require.
    pub python: Option<Interpreter>,
    /// Real driver or simulated machine.
    pub provenance: Provenance,
}

impl Facts {
    /// Returns the facts of a machine for one plan.
    pub fn new(
        machine: &Machine,
        libcudart: Option<&Runtime>,
        plan: &Plan,
        provenance: Provenance,
    ) -> Facts {
        let first = plan.gpus.first();
        let first = machine.gpus.iter().find(|gpu| first == Some(&gpu.uuid));
        Facts {
            driver_version: machine.driver_version.clone(),
            libcudart: libcudart.and_then(|runtime| runtime.version.clone()),
            gpus: machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
            compute_capability: first.and_then(|gpu| gpu.compute_capability.clone()),
            python: machine.python.clone(),
            provenance,
        }
    }
}

/// Returns `true` if every condition holds. A condition on an unknown fact does not hold: an expectation is only for
/// machines that are known to fulfill its conditions.
pub fn matches(when: &When, facts: &Facts, parameters: &BTreeMap<String, Scalar>) -> bool {
    let gpus = facts.gpus.len().to_string();
    is_in_range(when.driver.as_ref(), facts.driver_version.as_deref())
        && is_in_range(when.libcudart.as_ref(), facts.libcudart.as_deref())
        && is_in_range(
            when.compute_capability.as_ref(),
            facts.compute_capability.as_deref(),
        )
        && is_in_range(when.gpus.as_ref(), Some(&gpus))
        && when.parameters.iter().all(|(name, values)| {
            parameters
                .get(name)
                .is_some_and(|value| values.contains(value))
        })
        && when.packages.iter().all(|text| {
            facts
                .python
                .as_ref()
                .is_some_and(|python| unmet_requirement(text, python).is_none())
        })
}

fn is_in_range(range: Option<&Range>, value: Option<&str>) -> bool {
    range.is_none_or(|range| value.is_some_and(|value| range.matches(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::fixture::plan;
    use crate::plan::fixture::machine;

    fn facts() -> Facts {
        Facts::new(&machine(2), None, &plan(2, vec![]), Provenance::Measured)
    }

    fn range(text: &str) -> Option<Range> {
        Some(Range(text.into()))
    }

    #[test]
    fn every_condition_that_is_given_must_hold() {
        for (when, holds) in [
            (When::default(), true),
            (
                When {
                    driver: range(">= 525"),
                    gpus: range("= 2"),
                    ..When::default()
                },
                true,
            ),
            (
                When {
                    driver: range(">= 525"),
                    gpus: range("> 2"),
                    ..When::default()
                },
                false,
            ),
            (
                When {
                    compute_capability: range(">= 9.0"),
                    ..When::default()
                },
                true,
            ),
        ] {
            assert_eq!(
                matches(&when, &facts(), &BTreeMap::new()),
                holds,
                "{when:?}"
            );
        }
    }

    #[test]
    fn a_fact_that_is_not_known_fulfils_no_condition() {
        let when = When {
            libcudart: range(">= 1.0"),
            ..When::default()
        };
        assert!(!matches(&when, &facts(), &BTreeMap::new()));
        let known = Facts {
            libcudart: Some("13.0".into()),
            ..facts()
        };
        assert!(matches(&when, &known, &BTreeMap::new()));
    }

    #[test]
    fn a_parameter_must_have_one_of_the_values() {
        let when = When {
            parameters: [("mask".into(), vec![Scalar::Int(0), Scalar::Int(1)])].into(),
            ..When::default()
        };
        for (value, holds) in [(1, true), (2, false)] {
            assert_eq!(
                matches(
                    &when,
                    &facts(),
                    &[("mask".to_string(), Scalar::Int(value))].into()
                ),
                holds
            );
        }
        assert!(!matches(&when, &facts(), &BTreeMap::new()));
    }

    #[test]
    fn packages_are_those_of_the_interpreter() {
        let when = When {
            packages: vec!["torch >= 2.11".into()],
            ..When::default()
        };
        for (version, holds) in [("2.11.0+cu130", true), ("2.12.1", true), ("2.10.0", false)] {
            let packages = [("torch".to_string(), Some(version.to_string()))].into();
            let python = Some(Interpreter {
                packages,
                ..Interpreter::default()
            });
            assert_eq!(
                matches(&when, &Facts { python, ..facts() }, &BTreeMap::new()),
                holds,
                "{version}"
            );
        }
        assert!(
            !matches(&when, &facts(), &BTreeMap::new()),
            "without an interpreter"
        );
    }
}
