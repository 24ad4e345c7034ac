//! An attempt, step by step.

use cuda_pitfalls_calls::{self as calls, Call, Effect, Output};

use crate::event::{Event, Probe, Value};
use crate::plan::{CasePlan, Plan};
use crate::recording::Recording;
use crate::scenario::Step;

use super::memory::{is_sound, noise_limit};
use super::snapshots::{StepMemory, baseline_snapshot};
use super::{Observation, Scene, Shared, StepObservation};

/// The status of `cuDeviceGetCount` before `cuInit`.
const NOT_INITIALIZED: i64 = 3;
/// The status of `cuDeviceGetCount` if the driver has no GPU to show.
const NO_DEVICE: i64 = 100;

/// Returns the observation of an attempt, with one entry per step up to the last step that began.
pub fn observe_attempt(
    plan: &Plan,
    case: &CasePlan,
    recording: &Recording,
    scene: &Scene,
) -> Observation {
    let memory = StepMemory::new(plan, case, recording, scene);
    let begun = begun_steps(recording);
    let mut steps = Vec::new();
    for (index, step) in case.steps.iter().enumerate().take(begun) {
        let mut seen = called(plan, case, scene, recording, (index, step));
        if let Some(probe) = last_probe(recording, index) {
            look(plan, probe, &mut seen);
        }
        seen.memory = memory.after(index, seen.returned);
        steps.push(seen);
    }
    Observation {
        steps,
        end: end(case, recording),
    }
}

/// Returns the number of steps that began; the last of them may not have returned.
pub(crate) fn begun_steps(recording: &Recording) -> usize {
    let steps = recording.events.iter().filter_map(|said| match said.event {
        Event::Begin { step, .. } | Event::End { step, .. } => Some(step.saturating_add(1)),
        _ => None,
    });
    steps.max().unwrap_or(0)
}

/// Returns `true` if the worker made every step of its case and then exited, on command or because its last step was to
/// exit. A worker that lost a forked process is ordered to exit before its last step.
pub(crate) fn has_finished(case: &CasePlan, recording: &Recording) -> bool {
    let leaves = case
        .steps
        .last()
        .is_some_and(|last| last.has(Effect::ExitsAtOnce));
    begun_steps(recording) >= case.steps.len() && (recording.exit.said_bye || leaves)
}

fn end(case: &CasePlan, recording: &Recording) -> String {
    let exit = &recording.exit;
    if exit.deadline_at.is_some() {
        return "deadline".to_string();
    }
    match (&exit.signal, exit.code) {
        (Some(signal), _) => signal.clone(),
        (None, Some(0)) if has_finished(case, recording) => "0".to_string(),
        (None, Some(0)) => "early exit 0".to_string(),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "unknown".to_string(),
    }
}

fn called(
    plan: &Plan,
    case: &CasePlan,
    scene: &Scene,
    recording: &Recording,
    (index, step): (usize, &Step),
) -> StepObservation {
    let mut seen = StepObservation {
        label: step.label.clone(),
        ..StepObservation::default()
    };
    let row = calls::find(&step.call);
    for said in &recording.events {
        let Event::End {
            step: of,
            elapsed_ns,
            status,
            values,
            calls,
            varying,
            ..
        } = &said.event
        else {
            continue;
        };
        if *of != index {
            continue;
        }
        seen.returned = true;
        seen.elapsed_ns = *elapsed_ns;
        seen.status.clone_from(status);
        let named = values
            .iter()
            .map(|(name, value)| (name.clone(), by_plan_name(plan, scene, value)));
        (seen.values, seen.varying) = named.partition(|(name, value)| match row {
            _ if matches!(value, Value::Float(_)) => false,
            Some(row) => is_stable(row, name),
            // For a Python line, the file says which values vary, and the worker reports their names.
            None => step.python_line().is_some() && !varying.contains(name),
        });
        seen.calls.clone_from(calls);
    }
    if let Some((_, shared)) = ABOUT_EVERYONE.iter().find(|(call, _)| *call == step.call) {
        // Where the instrument was disturbed, nothing is known of what others hold: no figure is the worker's.
        if is_disturbed(recording, scene) {
            seen.shared = Some(Shared::Listed);
        } else if has_company(case, recording, scene) {
            seen.shared = Some(*shared);
        }
    }
    seen
}

/// Calls whose values include all processes on a GPU.
const ABOUT_EVERYONE: [(&str, Shared); 6] = [
    ("nvmlDeviceGetComputeRunningProcesses_v2", Shared::Listed),
    ("nvmlDeviceGetComputeRunningProcesses_v3", Shared::Listed),
    ("nvmlDeviceGetMemoryInfo", Shared::Summed),
    ("nvmlDeviceGetMemoryInfo_v2", Shared::Summed),
    ("cuMemGetInfo_v2", Shared::Summed),
    ("cudaMemGetInfo", Shared::Summed),
];

/// Returns `true` if another process was on some GPU of the run before the worker: NVML listed a process, or more
/// memory was in use than noise. A case that selects a GPU by its index may see a GPU of another run.
fn has_company(case: &CasePlan, recording: &Recording, scene: &Scene) -> bool {
    let Some(baseline) = baseline_snapshot(recording) else {
        return false;
    };
    let is_by_index = case
        .steps
        .iter()
        .any(|step| step.call.starts_with("nvmlDeviceGetHandleByIndex"));
    for (gpu, reading) in scene.gpus.iter().zip(&baseline.snapshot.gpus) {
        if !is_by_index && !scene.is_of_the_run(gpu) {
            continue;
        }
        let noise = noise_limit(scene.calibration_of(&gpu.uuid, recording));
        let lists_process = matches!(&reading.processes, Some(listed) if !listed.is_empty());
        if lists_process || reading.used_bytes > Some(noise) {
            return true;
        }
    }
    false
}

/// Returns `true` if the calibration of some GPU that holds for this attempt is not sound.
fn is_disturbed(recording: &Recording, scene: &Scene) -> bool {
    let mut known = scene
        .gpus
        .iter()
        .filter_map(|gpu| scene.calibration_of(&gpu.uuid, recording));
    known.any(|calibration| !is_sound(Some(calibration)))
}

/// Returns `true` if an output is the same in every attempt. An output that the table does not list may vary, so it
/// must not split outcomes.
fn is_stable(row: &Call, name: &str) -> bool {
    if let Some((_, output)) = row.outputs().find(|(known, _)| *known == name) {
        return !matches!(output, Output::Varying | Output::F32);
    }
    let mut fields = row.outputs().flat_map(|(_, output)| match output {
        Output::Struct(layout) => layout.fields.as_slice(),
        _ => &[],
    });
    fields
        .find(|field| field.name == name)
        .is_some_and(|field| field.stable)
}

/// Replaces UUIDs and PCI addresses by plan names, so that outcomes of different machines can be compared.
fn by_plan_name(plan: &Plan, scene: &Scene, value: &Value) -> Value {
    let Value::Text(text) = value else {
        return value.clone();
    };
    for gpu in scene.gpus {
        if let Some(id) = &gpu.pci_bus_id
            && is_address(text, id)
        {
            return Value::Text(name_of(plan, &gpu.uuid));
        }
    }
    Value::Text(name_of(plan, text))
}

/// Returns `true` if a text is a GPU's PCI address as NVML reported it: CUDA writes the domain with four digits, NVML
/// with eight.
fn is_address(text: &str, nvml: &str) -> bool {
    text.contains(':')
        && text
            .trim_start_matches('0')
            .eq_ignore_ascii_case(nvml.trim_start_matches('0'))
}

/// Returns the plan's name of a GPU. A GPU that is not in the plan keeps its UUID, because it is a finding.
fn name_of(plan: &Plan, uuid: &str) -> String {
    plan.gpu_name(uuid).unwrap_or_else(|| uuid.to_string())
}

fn last_probe(recording: &Recording, index: usize) -> Option<&Probe> {
    recording
        .events
        .iter()
        .rev()
        .find_map(|said| match &said.event {
            Event::Probe { step, probe, .. } if *step == index => Some(probe),
            _ => None,
        })
}

fn look(plan: &Plan, probe: &Probe, seen: &mut StepObservation) {
    match probe.status.as_ref().map(|status| status.code) {
        Some(0) => seen.initialised = Some(true),
        // Before `cuInit` it is not known which GPUs the process will see.
        Some(NOT_INITIALIZED) => {
            seen.initialised = Some(false);
            return;
        }
        // The driver does answer: it shows no GPU.
        Some(NO_DEVICE) => {
            seen.visible = Some(Vec::new());
            return;
        }
        _ => return,
    }
    let Some(visible) = &probe.visible else {
        return;
    };
    let names: Vec<String> = visible.iter().map(|uuid| name_of(plan, uuid)).collect();
    if let Some(active) = &probe.active {
        let mut contexts = Vec::new();
        for (name, is_active) in names.iter().zip(active) {
            if *is_active {
                contexts.push(name.clone());
            }
        }
        seen.contexts = Some(contexts);
    }
    seen.current = match (probe.current, &probe.current_status) {
        (None, None) => Some("none".to_string()),
        (Some(ordinal), None) => {
            let place = usize::try_from(ordinal).unwrap_or(usize::MAX);
            names.get(place).cloned()
        }
        (_, Some(_)) => None,
    };
    seen.visible = Some(names);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::fixture::{Script, calibration, case, plan};
    use crate::plan::fixture::gpu;
    use crate::recording::ProcessExit;

    fn seen(script: &Script, case: &CasePlan) -> Observation {
        let plan = plan(2, vec![case.clone()]);
        let scene = Scene {
            calibration: &[calibration("GPU-0")],
            gpus: &[gpu("GPU-0"), gpu("GPU-1")],
        };
        observe_attempt(&plan, case, &script.recording(), &scene)
    }

    #[test]
    fn values_are_split_by_the_step_table_and_uuids_get_plan_names() {
        let case = case(
            "trap",
            &[
                "cuDeviceGetUuid_v2",
                "cudaMemGetInfo",
                "cudaEventElapsedTime",
                "getpid",
            ],
        );
        let mut script = Script::new();
        script.step(0, 0, &[("uuid", Value::Text("GPU-1".into()))]);
        script.step(1, 0, &[("free", Value::Int(5)), ("total", Value::Int(9))]);
        script.step(2, 0, &[("milliseconds", Value::Float(0.5))]);
        script.step(3, 0, &[("pid", Value::Int(7))]);
        let observation = seen(&script, &case);
        assert_eq!(
            observation.steps[0].values["uuid"],
            Value::Text("gpu1".into())
        );
        assert!(observation.steps[1].values.is_empty());
        assert_eq!(observation.steps[1].varying.len(), 2);
        assert!(observation.steps[2].varying.contains_key("milliseconds"));
        assert!(observation.steps[3].varying.contains_key("pid"));
    }

    #[test]
    fn pci_addresses_are_the_same_in_either_spelling() {
        assert!(is_address("0000:1b:00.0", "00000000:1B:00.0"));
        assert!(!is_address("0000:1c:00.0", "00000000:1B:00.0"));
        assert!(!is_address("", ""));
    }

    #[test]
    fn fields_of_structs_are_stable_where_their_layout_says_so() {
        let case = case(
            "trap",
            &["cudaPointerGetAttributes", "nvmlDeviceGetMemoryInfo"],
        );
        let mut script = Script::new();
        script.step(0, 0, &[("type", Value::Int(2)), ("device", Value::Int(0))]);
        script.step(1, 0, &[("used", Value::Int(2))]);
        let observation = seen(&script, &case);
        assert_eq!(observation.steps[0].values.len(), 2);
        assert!(observation.steps[1].varying.contains_key("used"));
    }

    #[test]
    fn processes_on_a_gpu_of_another_run_are_no_company() {
        let shared = |handle: &str, busy: usize| {
            let case = case("trap", &[handle, "nvmlDeviceGetComputeRunningProcesses_v3"]);
            let mut script = Script::new();
            script.snapshot(None, &[0, 0]);
            script.process(0, busy, 7, None);
            script.step(0, 0, &[]);
            script.step(1, 0, &[("count", Value::Int(0))]);
            seen(&script, &case).steps[1].shared
        };
        // The run has GPU-0.
        assert_eq!(shared("nvmlDeviceGetHandleByUUID", 0), Some(Shared::Listed));
        assert_eq!(shared("nvmlDeviceGetHandleByUUID", 1), None);
        assert_eq!(
            shared("nvmlDeviceGetHandleByIndex_v2", 1),
            Some(Shared::Listed),
            "the index may be that of the other"
        );
    }

    #[test]
    fn steps_are_observed_up_to_the_last_one_begun() {
        let case = case("trap", &["cuInit", "pause", "mark"]);
        let mut script = Script::new();
        script.step(0, 0, &[]);
        script.begin(1);
        script.exit = ProcessExit {
            deadline_at: Some(1),
            ..ProcessExit::default()
        };
        let observation = seen(&script, &case);
        assert_eq!(observation.steps.len(), 2);
        assert!(observation.steps[0].returned && !observation.steps[1].returned);
        assert_eq!(observation.end, "deadline");
    }

    #[test]
    fn the_last_look_around_counts_and_ordinals_become_names() {
        let case = case("trap", &["cuInit"]);
        let mut script = Script::new();
        script.step(0, 0, &[]);
        script.probe(0, 3, None, None);
        script.probe(
            0,
            0,
            Some(&[("GPU-1", false), ("GPU-0", true), ("MIG-7", false)]),
            Some(1),
        );
        let observation = seen(&script, &case);
        let step = &observation.steps[0];
        assert_eq!(step.initialised, Some(true));
        assert_eq!(step.visible.as_deref().unwrap(), ["gpu1", "gpu0", "MIG-7"]);
        assert_eq!(step.contexts.as_deref().unwrap(), ["gpu0"]);
        assert_eq!(step.current.as_deref(), Some("gpu0"));
    }

    #[test]
    fn a_driver_that_would_not_say_leaves_null_and_one_without_gpus_shows_none() {
        let look = |code: i64| {
            let case = case("trap", &["cuInit"]);
            let mut script = Script::new();
            script.step(0, 0, &[]);
            script.probe(0, code, Some(&[("GPU-0", false)]), None);
            seen(&script, &case).steps.remove(0)
        };
        assert_eq!((look(3).initialised, look(3).visible), (Some(false), None));
        assert_eq!(
            (look(100).initialised, look(100).visible),
            (None, Some(vec![]))
        );
        assert_eq!(
            (look(999).initialised, look(999).visible, look(999).current),
            (None, None, None)
        );
        assert_eq!(look(0).current.as_deref(), Some("none"));
    }

    #[test]
    fn ends_have_words() {
        let end = |calls: &[&str], exit: ProcessExit| {
            let case = case("trap", calls);
            let mut script = Script::new();
            for step in 0..calls.len() {
                script.begin(step);
            }
            script.exit = exit;
            seen(&script, &case).end
        };
        let code = |code, said_bye| ProcessExit {
            code: Some(code),
            said_bye,
            ..ProcessExit::default()
        };
        assert_eq!(end(&["mark"], code(0, true)), "0");
        assert_eq!(end(&["mark"], code(0, false)), "early exit 0");
        assert_eq!(end(&["_exit", "cuInit"], code(0, false)), "early exit 0");
        assert_eq!(end(&["mark", "_exit"], code(0, false)), "0");
        assert_eq!(end(&["mark"], code(3, false)), "exit 3");
        assert_eq!(
            end(
                &["mark"],
                ProcessExit {
                    signal: Some("SIGSEGV".into()),
                    ..ProcessExit::default()
                }
            ),
            "SIGSEGV"
        );
        let killed = ProcessExit {
            signal: Some("SIGKILL".into()),
            deadline_at: Some(0),
            ..ProcessExit::default()
        };
        assert_eq!(end(&["mark"], killed), "deadline");
        assert_eq!(end(&["mark"], ProcessExit::default()), "unknown");
    }
}
