//! Attempts for tests, written event by event.

use cuda_pitfalls_calls::CallLibrary;

use crate::calibration::Calibration;
use crate::event::{Event, Probe, Status, Value};
use crate::plan::{CasePlan, Plan};
use crate::recording::Recording;
use crate::recording::{BarrierSnapshot, ProcessEvent, ProcessExit};
use crate::sample::{Polling, Process, Reading, Snapshot};
use crate::scenario::Step;

/// The cost of one context on the calibrated GPUs of tests.
pub const CONTEXT: u64 = 500 << 20;

/// Returns a sound calibration.
pub fn calibration(uuid: &str) -> Calibration {
    Calibration {
        uuid: uuid.into(),
        init_bytes: Some(3 << 20),
        context_bytes: CONTEXT,
        allocation_bytes: 64 << 20,
        allocated_bytes: 64 << 20,
        epsilon_bytes: 2 << 20,
        pid_listed: true,
        sound: true,
        ..Calibration::default()
    }
}

/// Returns a case with these calls. Labels are the calls, with the index if a call is repeated.
pub fn case(name: &str, calls: &[&str]) -> CasePlan {
    let step = |(index, call): (usize, &&str)| {
        let again = calls.iter().take(index).any(|before| before == call);
        let label = if again {
            format!("{call}{index}")
        } else {
            (*call).to_string()
        };
        Step {
            line: 1,
            ..Step::call(call, &label)
        }
    };
    let steps = calls.iter().enumerate().map(step).collect();
    CasePlan {
        name: name.into(),
        probes: true,
        steps,
        ..CasePlan::default()
    }
}

/// Returns a plan for this many GPUs, all of them used.
pub fn plan(gpus: usize, cases: Vec<CasePlan>) -> Plan {
    let uuids = (0..gpus).map(|place| format!("GPU-{place}")).collect();
    let (repeat, step_timeout_ms, timeout_ms) = (5, 1, 1);
    Plan {
        repeat,
        step_timeout_ms,
        timeout_ms,
        gpus: uuids,
        used_gpus: gpus,
        cases,
        ..Plan::default()
    }
}

/// An attempt under construction. Each event lasts 100 ns.
#[derive(Clone)]
pub struct Script {
    pub events: Vec<Event>,
    pub snapshots: Vec<BarrierSnapshot>,
    pub polling: Option<Polling>,
    pub exit: ProcessExit,
    pub pid: u32,
    now: u64,
}

impl Script {
    /// Returns a worker that is ready, and that will exit normally.
    #[expect(clippy::new_without_default, reason = "a script begins with its steps")]
    pub fn new() -> Script {
        let pid = 4242;
        let ready = Event::Ready {
            protocol: 1,
            pid,
            libraries: Vec::new(),
            missing: Vec::new(),
            injected: Vec::new(),
        };
        let exit = ProcessExit {
            code: Some(0),
            said_bye: true,
            ..ProcessExit::default()
        };
        let (snapshots, polling) = (Vec::new(), Some(Polling::default()));
        Script {
            events: vec![ready],
            snapshots,
            polling,
            exit,
            pid,
            now: 1000,
        }
    }

    fn tick(&mut self) -> u64 {
        self.now += 100;
        self.now
    }

    /// Begins the call of a step.
    pub fn begin(&mut self, step: usize) {
        let t_ns = self.tick();
        self.events.push(Event::Begin { step, t_ns });
    }

    /// Begins a step and returns this status of the driver, and these values.
    pub fn step(&mut self, step: usize, code: i64, values: &[(&str, Value)]) {
        self.begin(step);
        let t_ns = self.tick();
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_string(), value.clone()))
            .collect();
        let status = Some(Status::named(CallLibrary::Driver, code));
        self.events.push(Event::End {
            step,
            t_ns,
            elapsed_ns: 50 + t_ns % 7,
            status,
            values,
            bytes: None,
            calls: None,
            processes: Vec::new(),
            varying: Vec::new(),
        });
    }

    /// Probes the worker's state: the status, the visible GPUs and their active contexts, the current one.
    pub fn probe(
        &mut self,
        step: usize,
        code: i64,
        gpus: Option<&[(&str, bool)]>,
        current: Option<i32>,
    ) {
        let probe = Probe {
            status: Some(Status { code, name: None }),
            visible: gpus.map(|gpus| gpus.iter().map(|(uuid, _)| (*uuid).to_string()).collect()),
            active: gpus.map(|gpus| gpus.iter().map(|(_, active)| *active).collect()),
            current,
            current_status: None,
        };
        self.events.push(Event::Probe {
            step,
            elapsed_ns: 1,
            probe,
        });
    }

    /// Takes a snapshot with these bytes in use per GPU, and empty process lists.
    pub fn snapshot(&mut self, step: Option<usize>, used: &[u64]) {
        let reading = |&used_bytes: &u64| Reading {
            used_bytes: Some(used_bytes),
            processes: Some(Vec::new()),
            ..Reading::default()
        };
        let snapshot = Snapshot {
            t_ns: self.tick(),
            elapsed_ns: 1,
            gpus: used.iter().map(reading).collect(),
        };
        self.snapshots.push(BarrierSnapshot {
            step,
            after_exit: false,
            snapshot,
        });
    }

    /// Takes a snapshot after the worker's end.
    pub fn snapshot_after_exit(&mut self, used: &[u64]) {
        self.snapshot(None, used);
        if let Some(last) = self.snapshots.last_mut() {
            last.after_exit = true;
        }
    }

    /// Adds a process on a GPU to one of the snapshots.
    pub fn process(&mut self, snapshot: usize, gpu: usize, pid: u32, used_bytes: Option<u64>) {
        let processes = &mut self.snapshots[snapshot].snapshot.gpus[gpu].processes;
        processes
            .get_or_insert_default()
            .push(Process { pid, used_bytes });
    }

    /// Returns the recording that the supervisor would have made.
    pub fn recording(&self) -> Recording {
        Recording {
            started_ns: 1000,
            wall_ns: self.now - 1000,
            pid: self.pid,
            events: self
                .events
                .iter()
                .map(|event| ProcessEvent {
                    process: None,
                    event: event.clone(),
                })
                .collect(),
            snapshots: self.snapshots.clone(),
            polling: self.polling.clone(),
            exit: self.exit.clone(),
            ..Recording::default()
        }
    }
}
