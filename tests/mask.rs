//! Compares the library's rule for masks with that of the simulated driver, which was written apart
//! from it, and with every committed attempt that started the driver: it was made from those, and must
//! go on fitting all of them.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::event::{Event, Status};
use cuda_pitfalls::mask::{self, Parsed};
use cuda_pitfalls::plan::CasePlan;
use cuda_pitfalls::report::{Attempt, read};
use cuda_pitfalls::scenario::{Scalar, Step};

use common::committed_reports;

/// The simulated driver's files, compiled into this test: a process for each mask would take hours.
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "the simulated driver's own file, of which this needs a part"
)]
#[path = "."]
mod machine {
    #[path = "../src/fake/sim/machine/gpu.rs"]
    pub mod gpu;
}
#[allow(missing_docs, unreachable_pub, reason = "the simulated driver's own file")]
#[path = "."]
mod model {
    #[path = "../src/fake/sim/model/mask.rs"]
    pub mod mask;
}

use machine::gpu::{Gpu, sample};
use model::mask::Unusable;

/// Equal GPUs with these UUIDs.
fn simulated(uuids: &[String]) -> Vec<Gpu> {
    uuids.iter().map(|uuid| sample::gpu(uuid, 1)).collect()
}

/// What the simulated driver answers.
fn told(mask: Option<&str>, order: Option<&str>, gpus: &[Gpu]) -> Parsed {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    let (mask, order) = (bytes(mask), bytes(order));
    let seen = model::mask::device_order(order.as_deref(), gpus)
        .and_then(|ordered| model::mask::visible(mask.as_deref(), &ordered, gpus));
    match seen {
        Ok(gpus) => Parsed { status: mask::InitStatus::Success, gpus },
        Err(Unusable::ShowsNone) => Parsed { status: mask::InitStatus::NoDevice, gpus: Vec::new() },
        Err(Unusable::NamesOneTwice | Unusable::UnknownOrder) => {
            Parsed { status: mask::InitStatus::InvalidDevice, gpus: Vec::new() }
        }
    }
}

/// Compares the two rules, and counts answers.
#[derive(Default)]
struct Comparison {
    answers: BTreeMap<mask::InitStatus, usize>,
    differences: Vec<String>,
}

impl Comparison {
    fn compare(&mut self, mask: Option<&str>, order: Option<&str>, uuids: &[String], gpus: &[Gpu]) {
        let (ours, theirs) = (mask::parse(mask, order, uuids), told(mask, order, gpus));
        if ours != theirs {
            self.differences.push(format!("{mask:?} {order:?} on {uuids:?}: {ours:?}, simulated {theirs:?}"));
        }
        *self.answers.entry(ours.status).or_default() += 1;
    }

    /// Fails on any difference, and if one of the three answers was given less often than this.
    fn assert_agreed(&self, least: usize) {
        let first: Vec<&String> = self.differences.iter().take(10).collect();
        assert!(first.is_empty(), "{} differences, such as {first:#?}", self.differences.len());
        let statuses = [mask::InitStatus::Success, mask::InitStatus::NoDevice, mask::InitStatus::InvalidDevice];
        let rare = statuses.iter().any(|status| self.answers.get(status).is_none_or(|count| *count < least));
        assert!(!rare, "{:?}", self.answers);
        println!("compared: {:?}", self.answers);
    }
}

/// UUIDs of which any two begin alike for so many letters, and no further.
fn alike(gpus: usize, letters: usize) -> Vec<String> {
    const DIGITS: [char; 8] = ['3', 'a', '0', 'f', '7', 'c', '1', 'e'];
    let whole = "GPU-5be1e4a0-9d27-4c63-b8f2-06aa71c39d54";
    let uuid = |gpu: usize| -> String {
        let own = |(at, letter)| if at == letters && letter != '-' { DIGITS[gpu] } else { letter };
        whole.chars().enumerate().map(own).collect()
    };
    (0..gpus).map(uuid).collect()
}

#[test]
fn the_simulated_driver_reads_generated_masks_alike() {
    for gpus in [1, 2, 4, 8] {
        let mut comparison = Comparison::default();
        let templates = mask::generate(20, 2500, gpus);
        assert_eq!(templates.len(), 2500);
        // Alike in nothing, in one digit, in eight and the hyphen, and in all but the last.
        for letters in [4, 5, 13, 39] {
            let uuids = alike(gpus, letters);
            assert_eq!(uuids.iter().collect::<BTreeSet<_>>().len(), gpus, "{uuids:?}");
            let machine = simulated(&uuids);
            for template in &templates {
                let mask = template.fill(&uuids).expect("it was generated for so many GPUs");
                comparison.compare(Some(&mask), None, &uuids, &machine);
            }
        }
        comparison.assert_agreed(1000);
    }
}

#[test]
fn the_simulated_driver_reads_every_short_mask_alike() {
    const LETTERS: [&str; 13] = ["0", "1", "9", "+", "-", ",", " ", "\n", "x", "GPU-", "a", "4294967296", "é"];
    let uuids = ["GPU-a1", "GPU-b0"].map(String::from);
    let machine = simulated(&uuids);
    let mut comparison = Comparison::default();
    let mut masks = vec![String::new()];
    for _ in 0..4 {
        masks = masks.iter().flat_map(|mask| LETTERS.map(|letter| format!("{mask}{letter}"))).collect();
        for mask in &masks {
            comparison.compare(Some(mask), None, &uuids, &machine);
        }
    }
    comparison.assert_agreed(100);
}

#[test]
fn the_simulated_driver_reads_the_forms_of_the_survey_alike() {
    let forms = mask::forms().expect("the forms that come with the program are valid");
    let mut comparison = Comparison::default();
    for gpus in [2, 4, 8] {
        let uuids = alike(gpus, 4);
        let machine = simulated(&uuids);
        for (_, form) in &forms {
            let mask = form.mask.as_ref().map(|mask| mask.fill(&uuids)).transpose();
            // Some forms are about eight GPUs.
            let Ok(mask) = mask else { continue };
            comparison.compare(mask.as_deref(), form.order.as_deref(), &uuids, &machine);
        }
    }
    comparison.assert_agreed(20);
}

/// What a process's environment says to the driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    mask: Option<String>,
    order: Option<String>,
    hook: Hook,
}

/// The hook of `CUDA_INJECTION64_PATH`, which the first `cuInit` calls before it reads the mask.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Hook {
    is_named: bool,
    /// What it sets the mask to.
    mask: Option<String>,
}

impl Asked {
    fn at_exec(case: &CasePlan) -> Asked {
        let mask = case.mask.as_ref().map(|uuids| uuids.join(","));
        let of = |name: &str| case.env.get(name).cloned();
        Asked {
            mask: mask.or_else(|| of("CUDA_VISIBLE_DEVICES")),
            order: of("CUDA_DEVICE_ORDER"),
            hook: Hook::default(),
        }
    }

    /// The first `cuInit` of a process begins.
    fn init(&mut self) {
        if let Hook { is_named: true, mask: Some(mask) } = std::mem::take(&mut self.hook) {
            self.mask = Some(mask);
        }
    }

    /// Whether a step changes the environment at most; it is changed here, too.
    fn follow(&mut self, step: &Step) -> bool {
        let text = |name: &str| step.args.get(name).map(Scalar::to_string);
        let value = match step.call.as_str() {
            "setenv" | "environ" => text("value"),
            "unsetenv" => None,
            "clearenv" => {
                *self = Asked { mask: None, order: None, hook: Hook::default() };
                return true;
            }
            "mark" => return true,
            _ => return false,
        };
        match text("name").as_deref() {
            Some("CUDA_VISIBLE_DEVICES") => self.mask = value,
            Some("CUDA_DEVICE_ORDER") => self.order = value,
            Some("CUDA_INJECTION64_PATH") => {
                self.hook.is_named = value.is_some_and(|path| path.starts_with("libcuda_"))
            }
            Some("CUDA_PITFALLS_HOOK_MASK") => self.hook.mask = value,
            _ => {}
        }
        true
    }
}

/// A `cuInit` of the worker's first process that had to read the environment.
struct Init {
    asked: Asked,
    status: String,
    /// UUIDs of the visible GPUs in CUDA order, where the worker looked.
    visible: Option<Vec<String>>,
}

/// Walks an attempt up to the `cuInit` that succeeded, or to the call of another sort after which it
/// cannot be known from here whether the driver was initialised.
fn inits(case: &CasePlan, attempt: &Attempt) -> Vec<Init> {
    let own = || attempt.recording.events.iter().filter(|event| event.process.is_none()).map(|event| &event.event);
    let returned = |at: usize| -> Option<&Status> {
        own().find_map(|event| match event {
            Event::End { step, status, .. } if *step == at => status.as_ref(),
            _ => None,
        })
    };
    let looked = |at: usize| {
        own().find_map(|event| match event {
            Event::Probe { step, probe, .. } if *step == at => Some(probe),
            _ => None,
        })
    };
    let processes: BTreeSet<&str> =
        case.steps.iter().filter(|step| step.starts_process()).filter_map(|step| step.bind.as_deref()).collect();
    let (mut asked, mut found) = (Asked::at_exec(case), Vec::new());
    for (at, step) in case.steps.iter().enumerate() {
        if step.on.as_deref().is_some_and(|actor| processes.contains(actor)) || asked.follow(step) {
            continue;
        }
        if step.call == "seccomp" {
            // The rule is about processes that may open every GPU.
            break;
        }
        if step.call != "cuInit" {
            // `cuDeviceGetCount` says 3 before `cuInit`. A runtime that has failed is another matter.
            let untouched = looked(at).and_then(|probe| probe.status.as_ref()).is_some_and(|status| status.code == 3);
            if untouched && returned(at).is_none_or(|status| status.code == 0) {
                continue;
            }
            break;
        }
        let Some(status) = returned(at) else { break };
        asked.init();
        let visible = looked(at).and_then(|probe| probe.visible.clone());
        found.push(Init { asked: asked.clone(), status: status.name.clone().unwrap_or_default(), visible });
        // After 100 the next one reads the environment again; after 101 nobody knows.
        if status.code != 100 {
            break;
        }
    }
    found
}

#[test]
fn the_rule_says_what_every_committed_attempt_showed() {
    let (mut wrong, mut asked, mut masked) = (BTreeSet::new(), BTreeSet::new(), 0);
    let (mut statuses, mut lists, mut all): (BTreeMap<String, usize>, usize, usize) = (BTreeMap::new(), 0, 0);
    for (name, path) in committed_reports() {
        let report = read(&path).expect("a committed report can be read");
        // The reports' GPUs are equal, so CUDA numbers them as NVML does (`visibility/default-order`).
        let uuids: Vec<String> = report.machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        for scenario in &report.scenarios {
            let Some(plan) = &scenario.plan else { continue };
            for case in &scenario.cases {
                let planned = plan.case(&case.name).expect("a case that was run was planned");
                for init in case
                    .attempts
                    .iter()
                    .filter(|attempt| attempt.judged.invalid.is_empty())
                    .flat_map(|it| inits(planned, it))
                {
                    let Init { asked: Asked { mask, order, .. }, status, visible } = &init;
                    let answer = mask::parse(mask.as_deref(), order.as_deref(), &uuids);
                    let shown: Vec<String> = answer.gpus.iter().map(|gpu| uuids[*gpu].clone()).collect();
                    let visible_agrees = visible.as_ref().is_none_or(|visible| *visible == shown);
                    if answer.status.name() != status || !visible_agrees {
                        wrong.insert(format!(
                            "{name}: {}, {}: {:?} gave {status} and {visible:?}, not {answer:?}",
                            scenario.name, case.name, init.asked
                        ));
                    }
                    all += 1;
                    lists += usize::from(visible.is_some());
                    masked += usize::from(planned.mask.is_none() && (mask.is_some() || order.is_some()));
                    *statuses.entry(status.clone()).or_default() += 1;
                    asked.insert((uuids.len(), mask.clone(), order.clone()));
                }
            }
        }
    }
    println!("{all} calls of cuInit, {masked} with a mask of the scenario's own, {} values, {statuses:?}", asked.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A walk that overlooks what it looks for agrees with everything.
    assert!(all > 3000 && lists > 2500 && masked > 1000 && asked.len() > 150, "{all} {lists} {masked} {}", asked.len());
    let counts = |status: &str| statuses.get(status).copied().unwrap_or(0);
    assert!(counts("CUDA_ERROR_NO_DEVICE") > 200 && counts("CUDA_ERROR_INVALID_DEVICE") > 100, "{statuses:?}");
}
