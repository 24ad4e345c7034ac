//! The requirements of a scenario on a machine: a table of needs, each with its probe.
//!
//! Peer access between GPUs is not among the facts of the machine: finding out takes CUDA calls, and none is made
//! before the worker starts. A scenario that needs `peer_access` queries it in its own step, and the judge evaluates
//! the status.

use cuda_pitfalls_calls::{self as calls, CallLibrary};

use crate::machine::Machine;
use crate::python;
use crate::scenario::python::unmet_requirement;
use crate::scenario::{Gpus, Instance, Python, Range, Scenario};
use crate::verdict::Reason;

use super::options::{Options, Unmet};
use crate::text::counts::counted;

/// Returns the first need that the machine does not meet, for any of these instances.
pub(super) fn first_unmet(
    scenario: &Scenario,
    instances: &[Instance],
    machine: &Machine,
    options: &Options,
) -> Option<Unmet> {
    let asked = NeedContext {
        scenario,
        instances,
        machine,
        options,
    };
    NEEDS.iter().find_map(|need| {
        (need.probe)(&asked).map(|detail| Unmet {
            reason: need.reason,
            detail: format!("{}: {detail}", need.name),
            lacks: asked.missing_requirement(need),
        })
    })
}

/// Returns the number of GPUs that an instance uses.
pub(super) fn wanted(scenario: &Scenario, instance: &Instance) -> usize {
    let masked = instance.cases.iter().map(|case| match case.gpus {
        Gpus::All => 0,
        Gpus::Masked(count) => count,
    });
    usize::try_from(masked.fold(scenario.needs.gpus, u32::max)).unwrap_or(usize::MAX)
}

/// Returns `true` if some worker of an instance starts without a mask, and so may use every GPU.
pub(super) fn has_unmasked_case(instance: &Instance) -> bool {
    instance.cases.iter().any(|case| case.gpus == Gpus::All)
}

/// Returns the GPUs that a plan may use, as indices in NVML order, idle ones first.
pub(super) fn allowed_gpus(machine: &Machine, options: &Options) -> Vec<usize> {
    let mut idle = Vec::new();
    let mut busy = Vec::new();
    for (place, gpu) in machine.gpus.iter().enumerate() {
        if let Some(restrict) = &options.restrict
            && !restrict.contains(&gpu.uuid)
        {
            continue;
        }
        if options.busy.contains(&gpu.uuid) {
            busy.push(place);
        } else {
            idle.push(place);
        }
    }
    idle.append(&mut busy);
    idle
}

struct NeedContext<'a> {
    scenario: &'a Scenario,
    instances: &'a [Instance],
    machine: &'a Machine,
    options: &'a Options,
}

/// A need: its name, the reason to report if it is not met, and the probe. The probe returns a description of what is
/// missing.
struct Need {
    name: &'static str,
    reason: Reason,
    probe: fn(&NeedContext) -> Option<String>,
}

/// The needs in order of importance: missing components come before outdated ones.
const NEEDS: &[Need] = &[
    // An NVML that fails is no better than a missing one: nothing can be measured without it.
    need("NVML", Reason::NoNvml, |asked| {
        asked.unavailable_detail(|word| matches!(word, "no_nvml" | "nvml_error"))
    }),
    need("driver", Reason::NoDriver, |asked| {
        asked.unavailable_detail(|word| word == "no_driver")
    }),
    need("GPU", Reason::NoGpu, |asked| {
        let detail = asked.unavailable_detail(|word| word == "no_gpu");
        if detail.is_none() && asked.machine.gpus.is_empty() {
            return Some("NVML lists no GPU".to_string());
        }
        detail
    }),
    need("libcuda", Reason::NoLibcuda, |asked| {
        asked.unavailable_detail(|word| word == "no_libcuda")
    }),
    // An unknown word must not pass for a working machine.
    need("machine", Reason::System, |asked| {
        asked.unavailable_detail(|word| !KNOWN.contains(&word))
    }),
    need("libcudart", Reason::NoLibcudart, |asked| asked.libcudart()),
    need("gpus", Reason::Restricted, |asked| {
        asked.restriction_detail()
    }),
    need("gpus", Reason::TooFewGpus, |asked| asked.too_few_gpus()),
    need("driver", Reason::DriverVersion, |asked| {
        version_mismatch(
            asked.scenario.needs.driver.as_ref(),
            asked.machine.driver_version.as_deref(),
        )
    }),
    need("libcudart", Reason::LibcudartVersion, |asked| {
        let version = asked
            .options
            .libcudart
            .as_ref()
            .and_then(|runtime| runtime.version.as_deref());
        version_mismatch(asked.scenario.needs.libcudart.as_ref(), version)
    }),
    need("compute_capability", Reason::ComputeCapability, |asked| {
        asked.compute_capability()
    }),
    need("python", Reason::NoPython, |asked| asked.python()),
    need("package", Reason::NoPackage, |asked| {
        asked.package().map(|(detail, _)| detail)
    }),
    // A hazard that is not allowed comes first: without it, root is not needed.
    need("hazards", Reason::HazardNotAllowed, |asked| {
        asked.refused_hazard_detail()
    }),
    need("root", Reason::NotRoot, |asked| {
        let lacks_root = asked.scenario.needs.root && !asked.options.root;
        lacks_root.then(|| "the worker must run as root".to_string())
    }),
];

const KNOWN: [&str; 7] = [
    "no_nvml",
    "nvml_error",
    "no_driver",
    "no_gpu",
    "no_libcuda",
    "no_libcudart",
    "no_python",
];

const fn need(
    name: &'static str,
    reason: Reason,
    probe: fn(&NeedContext) -> Option<String>,
) -> Need {
    Need {
        name,
        reason,
        probe,
    }
}

impl NeedContext<'_> {
    fn unavailable_detail(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let mut unavailable = self.machine.unavailable.iter();
        let found = unavailable.find(|found| wanted(&found.reason))?;
        Some(found.detail.clone())
    }

    /// Returns the unmet requirement for the machine, in a few words.
    fn missing_requirement(&self, need: &Need) -> String {
        let needs = &self.scenario.needs;
        let (component, range) = match need.reason {
            Reason::DriverVersion => ("driver", &needs.driver),
            Reason::LibcudartVersion => ("libcudart", &needs.libcudart),
            Reason::ComputeCapability => ("compute capability", &needs.compute_capability),
            Reason::TooFewGpus => return counted(self.wanted(), "GPU"),
            Reason::Restricted => return "a worker without a mask".to_string(),
            Reason::HazardNotAllowed => {
                return format!("--allow {}", self.refused_hazards().join(" --allow "));
            }
            Reason::NoGpu => return counted(1, "GPU"),
            Reason::NoPython => return "a Python interpreter".to_string(),
            Reason::NoPackage => return self.package().map(|(_, lacks)| lacks).unwrap_or_default(),
            _ => return need.name.to_string(),
        };
        format!(
            "{component} {}",
            range.as_ref().map_or("", |range| &range.0)
        )
    }

    /// Returns the reason why libcudart is missing, if the scenario calls the runtime.
    fn libcudart(&self) -> Option<String> {
        let cases = self.instances.iter().flat_map(|instance| &instance.cases);
        let mut steps = cases.flat_map(|case| &case.steps);
        let needed_by = steps.find(|step| {
            calls::find(&step.call).is_some_and(|row| row.library == CallLibrary::Runtime)
        })?;
        if let Some(runtime) = &self.options.libcudart
            // A libcudart without a version number could not be loaded.
            && runtime.number.is_some()
        {
            return None;
        }
        match self.unavailable_detail(|word| word == "no_libcudart") {
            Some(detail) => Some(detail),
            None if self.options.libcudart.is_none() => {
                Some(format!("{} needs one", needed_by.call))
            }
            None => None,
        }
    }

    fn python_cases(&self) -> impl Iterator<Item = &Python> {
        self.instances
            .iter()
            .flat_map(|instance| &instance.cases)
            .filter_map(|case| case.python.as_ref())
    }

    /// Returns the reason why no interpreter can run the worker.
    fn python(&self) -> Option<String> {
        self.python_cases().next()?;
        let Some(found) = &self.machine.python else {
            return self
                .unavailable_detail(|word| word == "no_python")
                .or(Some("not checked".to_string()));
        };
        let (major, minor) = python::OLDEST;
        if Range(format!(">= {major}.{minor}")).matches(&found.version) {
            return None;
        }
        Some(format!(
            "{} is Python {}, but at least {major}.{minor} is needed",
            found.executable, found.version
        ))
    }

    /// Returns the first package that does not meet its requirement: a description, and the requirement.
    fn package(&self) -> Option<(String, String)> {
        let found = self.machine.python.as_ref()?;
        let mut needs = self.python_cases().flat_map(|python| &python.needs);
        needs.find_map(|text| Some((unmet_requirement(text, found)?, text.clone())))
    }

    /// Returns `true` if every instance has a worker without a mask.
    fn needs_all_gpus(&self) -> bool {
        !self.instances.is_empty() && self.instances.iter().all(has_unmasked_case)
    }

    fn restriction_detail(&self) -> Option<String> {
        let all = self.machine.gpus.len();
        let allowed = allowed_gpus(self.machine, self.options).len();
        if !self.needs_all_gpus() || allowed >= all {
            return None;
        }
        Some(format!(
            "the question needs a worker that sees all {all} GPUs, but only {allowed} may be used"
        ))
    }

    fn wanted(&self) -> usize {
        self.instances
            .iter()
            .map(|instance| wanted(self.scenario, instance))
            .min()
            .unwrap_or(0)
    }

    fn too_few_gpus(&self) -> Option<String> {
        let (wanted, machine) = (self.wanted(), self.machine.gpus.len());
        let allowed = allowed_gpus(self.machine, self.options).len();
        if allowed >= wanted {
            return None;
        }
        let used = if allowed < machine {
            format!(", {allowed} of them may be used")
        } else {
            String::new()
        };
        Some(format!(
            "{wanted} are needed, but the machine has {machine}{used}"
        ))
    }

    fn compute_capability(&self) -> Option<String> {
        let needed = self.scenario.needs.compute_capability.as_ref();
        let count = if self.needs_all_gpus() {
            self.machine.gpus.len()
        } else {
            self.wanted()
        };
        for place in allowed_gpus(self.machine, self.options).iter().take(count) {
            let gpu = self.machine.gpus.get(*place)?;
            if let Some(why) = version_mismatch(needed, gpu.compute_capability.as_deref()) {
                return Some(format!("{}: {why}", gpu.uuid));
            }
        }
        None
    }

    /// Returns the names of the hazards that are not allowed.
    fn refused_hazards(&self) -> Vec<&'static str> {
        let mut refused = Vec::new();
        for hazard in &self.scenario.hazards {
            if !self.options.allow.contains(hazard) {
                refused.push(hazard.name());
            }
        }
        refused
    }

    fn refused_hazard_detail(&self) -> Option<String> {
        let names = self.refused_hazards();
        if names.is_empty() {
            return None;
        }
        let flags = names.join("` with `--allow ");
        let names = names.join(" and ");
        Some(format!("{names} not allowed; use `--allow {flags}`"))
    }
}

/// Returns the reason why a version is outside a range. An unknown version is outside every range, because the answer
/// would rely on a guess.
fn version_mismatch(range: Option<&Range>, version: Option<&str>) -> Option<String> {
    let range = range?;
    match version {
        Some(version) if range.matches(version) => None,
        Some(version) => Some(format!("{version} is outside `{}`", range.0)),
        None => Some(format!(
            "`{}` is needed, but the version could not be read",
            range.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Interpreter, Runtime, Unavailable};
    use crate::plan::fixture::{instance, machine, scenario};
    use crate::scenario::{Hazard, Needs};

    fn need(change: impl FnOnce(&mut Scenario, &mut Machine, &mut Options)) -> Option<Unmet> {
        let (mut scenario, mut machine, mut options) = (scenario(), machine(2), Options::default());
        change(&mut scenario, &mut machine, &mut options);
        first_unmet(&scenario, &scenario.instances, &machine, &options)
    }

    fn reason(change: impl FnOnce(&mut Scenario, &mut Machine, &mut Options)) -> Option<Reason> {
        need(change).map(|unmet| unmet.reason)
    }

    fn range(text: &str) -> Option<Range> {
        Some(Range(text.into()))
    }

    fn lacks(machine: &mut Machine, word: &str) {
        machine.unavailable.push(Unavailable {
            reason: word.into(),
            detail: "not there".into(),
        });
    }

    #[test]
    fn a_machine_that_has_everything_lacks_nothing() {
        assert_eq!(reason(|_, _, _| ()), None);
    }

    #[test]
    fn each_need_has_its_reason() {
        type Lack = fn(&mut Scenario, &mut Machine, &mut Options);
        let table: [(Lack, Reason); 17] = [
            (|_, m, _| lacks(m, "no_nvml"), Reason::NoNvml),
            (|_, m, _| lacks(m, "nvml_error"), Reason::NoNvml),
            (|_, m, _| lacks(m, "no_driver"), Reason::NoDriver),
            (|_, m, _| lacks(m, "no_gpu"), Reason::NoGpu),
            (|_, m, _| m.gpus.clear(), Reason::NoGpu),
            (|_, m, _| lacks(m, "no_libcuda"), Reason::NoLibcuda),
            (|_, m, _| lacks(m, "a word of tomorrow"), Reason::System),
            (|s, _, _| s.needs.gpus = 3, Reason::TooFewGpus),
            (
                |_, _, o| o.restrict = Some(vec!["GPU-9".into()]),
                Reason::TooFewGpus,
            ),
            (
                |s, _, _| s.needs.driver = range(">= 600"),
                Reason::DriverVersion,
            ),
            (|_, m, _| m.driver_version = None, Reason::DriverVersion),
            (
                |s, _, _| s.needs.libcudart = range(">= 12.0"),
                Reason::LibcudartVersion,
            ),
            (
                |s, _, _| s.needs.compute_capability = range("< 9.0"),
                Reason::ComputeCapability,
            ),
            (|s, _, _| s.needs.root = true, Reason::NotRoot),
            (
                |s, _, _| s.hazards = vec![Hazard::Fault],
                Reason::HazardNotAllowed,
            ),
            (
                |s, _, _| s.instances = vec![instance(&[("trap", Gpus::Masked(3))])],
                Reason::TooFewGpus,
            ),
            (
                |s, _, o| {
                    s.instances = vec![instance(&[("trap", Gpus::All)])];
                    o.restrict = Some(vec!["GPU-0".into()]);
                },
                Reason::Restricted,
            ),
        ];
        for (number, (change, expected)) in table.into_iter().enumerate() {
            let found = reason(|s, m, o| {
                s.needs = Needs {
                    driver: range(">= 525"),
                    ..s.needs.clone()
                };
                change(s, m, o);
            });
            assert_eq!(found, Some(expected), "row {number}");
        }
    }

    #[test]
    fn only_a_scenario_that_calls_the_runtime_needs_a_libcudart() {
        assert_eq!(reason(|_, m, _| lacks(m, "no_libcudart")), None);
        let runtime = |s: &mut Scenario| {
            for step in s
                .instances
                .iter_mut()
                .flat_map(|i| &mut i.cases)
                .flat_map(|c| &mut c.steps)
            {
                step.call = "cudaGetDeviceCount".into();
            }
        };
        assert_eq!(reason(|s, _, _| runtime(s)), Some(Reason::NoLibcudart));
        let there = Runtime {
            path: "/lib/libcudart.so.13".into(),
            version: Some("13.0".into()),
            number: Some(13000),
        };
        let found = reason(|s, m, o| {
            runtime(s);
            lacks(m, "no_libcudart");
            o.libcudart = Some(there);
        });
        assert_eq!(found, None);
    }

    #[test]
    fn python_lines_need_an_interpreter_and_packages() {
        let found = |needs: &[&str], python: Option<&str>| {
            let found = need(|s, m, _| {
                s.instances = vec![instance(&[("trap", Gpus::Masked(1))])];
                let needs = needs.iter().map(ToString::to_string).collect();
                s.instances[0].cases[0].python = Some(Python { needs });
                let packages = [
                    ("torch", Some("2.9.0+cu130")),
                    ("local", Some("")),
                    ("jax", None),
                ];
                m.python = python.map(|version| Interpreter {
                    executable: "/usr/bin/python3".into(),
                    implementation: "cpython".into(),
                    version: version.into(),
                    packages: packages
                        .map(|(name, version)| (name.into(), version.map(str::to_string)))
                        .into(),
                });
            });
            found.map(|unmet| (unmet.reason, unmet.detail, unmet.lacks))
        };
        assert_eq!(
            found(
                &["torch >= 2.0", "jax | local", "python >= 3.9"],
                Some("3.12.1")
            ),
            None
        );
        let lacks = |needs: &str| {
            found(&[needs], Some("3.12.1")).map(|(reason, detail, _)| (reason, detail))
        };
        let package = |detail: &str| Some((Reason::NoPackage, format!("package: {detail}")));
        assert_eq!(
            lacks("torch < 2"),
            package("torch 2.9.0+cu130 is outside `torch < 2`")
        );
        assert_eq!(
            lacks("local >= 1"),
            package("`local >= 1`: local has no version")
        );
        assert_eq!(
            lacks("python >= 3.13"),
            package("python 3.12.1 is outside `python >= 3.13`")
        );
        let words = "`jax >= 0.4` is not installed for /usr/bin/python3 (Python 3.12.1)";
        assert_eq!(lacks("jax >= 0.4"), package(words));
        let (reason, detail, needed) = found(&[], Some("3.7.16")).unwrap();
        assert_eq!(
            (reason, needed.as_str()),
            (Reason::NoPython, "a Python interpreter")
        );
        assert!(
            detail.ends_with("is Python 3.7.16, but at least 3.8 is needed"),
            "{detail}"
        );
        assert_eq!(
            found(&["torch"], None).map(|(reason, ..)| reason),
            Some(Reason::NoPython)
        );
    }

    #[test]
    fn the_detail_of_a_hazard_names_the_flag() {
        let mut scenario = scenario();
        scenario.hazards = vec![Hazard::Fault];
        let machine = machine(1);
        let unmet =
            |options: &Options| first_unmet(&scenario, &scenario.instances, &machine, options);
        let detail = unmet(&Options::default()).unwrap().detail;
        assert!(detail.contains("--allow fault"), "{detail}");
        let options = Options {
            allow: vec![Hazard::Fault],
            ..Options::default()
        };
        assert_eq!(unmet(&options), None);
    }
}
