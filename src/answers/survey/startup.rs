//! `survey startup`: the duration of each call of a start, and the host memory of the process after it.
//!
//! A program of a few calls runs in a fresh process that another process starts. The other process does nothing, or has
//! called `cuInit`, or has a context. The cases take turns, so that slow changes of the machine affect all of them
//! equally. There are no probes between the calls, and each call is timed in the process itself.

mod programs;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use programs::{StartBeside, StartProgram};
pub(super) use programs::{call, driver_calls, repeated_call};

use super::question::{Item, SurveyAnswer, SurveyQuestions, SurveyRequest, scenario, status_name};
use super::row::{KindRow, RowAttempts};
use super::{SurveyKind, median};
use cuda_pitfalls_core::event::{Event, Value};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::recording::Recording;
use cuda_pitfalls_core::scenario::Case;

/// Results of a program in processes that see the same number of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartRow {
    /// The calls that the program makes.
    pub program: StartProgram,
    /// Number of GPUs visible to the process; NVML sees all GPUs of the machine, regardless of the mask.
    pub visible_gpus: u32,
    /// Version of libcudart, such as `13.0`; null for programs that do not use it.
    pub libcudart_version: Option<String>,
    /// The program next to another process, which does more from case to case.
    pub cases: Vec<StartCase>,
    /// Number of attempts of all cases together that count, and reasons why others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
}

/// Results of the program next to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartCase {
    /// Earlier actions of the other process.
    pub beside: StartBeside,
    /// The host memory before the first call, with the libraries loaded; null if it was not read.
    pub before: Option<ProcessMemory>,
    /// Calls, in order.
    pub steps: Vec<StartStep>,
}

/// A call of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartStep {
    /// The call, with a few words if the program makes it several times.
    pub call: String,
    /// The status of the call, by its C name; null if attempts disagree.
    pub status: Option<String>,
    /// Duration in each attempt that counts, in nanoseconds, in the order of the attempts.
    pub elapsed_ns: Vec<u64>,
    /// The host memory after the call; null if it was not read.
    pub host: Option<ProcessMemory>,
}

/// Host memory of a process from `/proc/PID/status`, in bytes. A figure is null if the kernel does not report it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessMemory {
    /// `VmRSS`: resident memory, including the pages of libraries.
    pub resident_bytes: Option<FigureRange>,
    /// `RssAnon`: the part of it that is anonymous.
    pub anonymous_bytes: Option<FigureRange>,
    /// `VmLck`: locked by mlock(2).
    pub locked_bytes: Option<FigureRange>,
    /// `VmPin`: pinned by the kernel, if the kernel counts it.
    pub pinned_bytes: Option<FigureRange>,
    /// `VmSize`: the address space.
    pub virtual_bytes: Option<FigureRange>,
}

/// Range of a figure over all attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FigureRange {
    /// The smallest.
    pub least: i64,
    /// Median; if there are two middle figures, the smaller one.
    pub median: i64,
    /// The largest.
    pub most: i64,
}

impl FigureRange {
    /// Returns the range of some figures; `None` if there are no figures.
    pub fn from_figures(figures: impl IntoIterator<Item = i64>) -> Option<FigureRange> {
        let figures: Vec<i64> = figures.into_iter().collect();
        let (least, most) = (*figures.iter().min()?, *figures.iter().max()?);
        Some(FigureRange {
            least,
            median: median(figures)?,
            most,
        })
    }
}

impl StartStep {
    /// Returns the duration of the call, in nanoseconds; `None` if no attempt counts.
    pub fn elapsed_range(&self) -> Option<FigureRange> {
        FigureRange::from_figures(
            self.elapsed_ns
                .iter()
                .map(|ns| i64::try_from(*ns).unwrap_or(i64::MAX)),
        )
    }
}

impl StartCase {
    /// Returns a step by its label.
    pub fn step(&self, call: &str) -> Option<&StartStep> {
        self.steps.iter().find(|step| step.call == call)
    }
}

impl StartRow {
    /// Returns the results of the program next to this process.
    pub fn case(&self, beside: StartBeside) -> Option<&StartCase> {
        self.cases.iter().find(|case| case.beside == beside)
    }

    /// Returns the program and its visible GPUs, without the libcudart.
    pub fn question_subject(&self) -> String {
        format!("{} {} visible", self.program.name(), self.visible_gpus)
    }

    /// Returns the statuses of all calls as one line of text; `None` if attempts disagree.
    pub fn returned(&self) -> Option<String> {
        let steps = self
            .cases
            .iter()
            .flat_map(|case| case.steps.iter().map(|step| (case.beside, step)));
        let each = steps.map(|(beside, step)| {
            Some(format!(
                "{} {}: {}",
                beside.name(),
                step.call,
                step.status.as_ref()?
            ))
        });
        each.collect::<Option<Vec<_>>>().map(|each| each.join(", "))
    }

    fn with(self, answered: &SurveyAnswer<'_>) -> StartRow {
        let mut standing = RowAttempts::from_report(answered.report);
        let version = match self.program {
            StartProgram::Runtime => answered.libcudart_version(),
            _ => None,
        };
        let cases = StartBeside::ALL.into_iter().filter_map(|beside| {
            let (planned, recordings) = answered.case_recordings(&beside.name())?;
            let seen: Vec<Vec<CallReading>> = recordings
                .into_iter()
                .map(|recording| read_calls(planned, recording))
                .collect();
            case(beside, &seen, &mut standing)
        });
        StartRow {
            cases: cases.collect(),
            libcudart_version: version,
            standing,
            ..self
        }
    }
}

/// Returns the questions of the survey.
pub(super) fn questions(request: &SurveyRequest<'_>) -> SurveyQuestions {
    let programs = StartProgram::ALL.into_iter();
    let items = programs.flat_map(|program| {
        program
            .visible(request.uuids.len())
            .into_iter()
            .map(move |visible| start_item(program, visible))
    });
    SurveyQuestions::Listed(items.collect(), Vec::new())
}

impl KindRow for StartRow {
    const KIND: SurveyKind = SurveyKind::Startup;

    fn question(&self) -> (String, Option<String>) {
        (self.question_subject(), self.libcudart_version.clone())
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn derived_facts(&self, _: &Machine) -> Vec<(&'static str, serde_json::Value)> {
        let steps = self
            .cases
            .iter()
            .flat_map(|case| case.steps.iter().map(|step| (case.beside.name(), step)));
        let steps = steps.map(|(beside, step)| {
            let resident = step.host.as_ref().and_then(|host| host.resident_bytes);
            json!({"call": step.call, "beside": beside, "status": step.status, "took": step.elapsed_range(), "resident": resident})
        });
        vec![
            ("steps", steps.collect()),
            ("returned", json!(self.returned())),
        ]
    }

    fn has_facts(&self) -> bool {
        !self.cases.is_empty()
            && self.cases.iter().all(|case: &StartCase| {
                !case.steps.is_empty() && case.steps.iter().all(|step| step.status.is_some())
            })
    }
}

fn start_item(program: StartProgram, visible_gpus: u32) -> Item {
    let (libcudart_version, standing) = (None, RowAttempts::default());
    let row = StartRow {
        program,
        visible_gpus,
        libcudart_version,
        cases: Vec::new(),
        standing,
    };
    let cases = StartBeside::ALL.map(|beside| Case {
        name: beside.name(),
        does: beside.does().to_string(),
        steps: program.steps(beside, visible_gpus),
        // A probe queries the driver, and the state that it initializes would be ready when the next call is timed.
        probes: false,
        ..Case::default()
    });
    let name = format!("survey-startup/{}", row.key().replace(' ', "-"));
    let question = format!(
        "How long does each call of the {} take at start-up?",
        program.name()
    );
    let scenario = scenario(
        name,
        question,
        Some(visible_gpus),
        Vec::new(),
        cases.to_vec(),
    );
    let (sets, of_libcudart) = (vec![program.name()], program == StartProgram::Runtime);
    Item {
        sets,
        of_libcudart,
        ..Item::new(row, scenario, StartRow::with)
    }
}

/// Observations of one attempt about one call; or, under the label [`programs::BEFORE`], about the time before the
/// first.
struct CallReading {
    call: String,
    status: String,
    elapsed_ns: u64,
    host: Option<Figures>,
}

/// Host memory, in the order of [`ProcessMemory`].
type Figures = [Option<i64>; 5];

fn read_calls(planned: &CasePlan, recording: &Recording) -> Vec<CallReading> {
    let mut seen: Vec<CallReading> = Vec::new();
    for said in &recording.events {
        let Event::End {
            step,
            status,
            values,
            elapsed_ns,
            ..
        } = &said.event
        else {
            continue;
        };
        let Some(label) = planned.steps.get(*step).map(|step| step.label.as_str()) else {
            continue;
        };
        if let Some(call) = programs::read_after(label) {
            let host = FIGURES.map(|name| match values.get(name) {
                Some(Value::Int(bytes)) => Some(*bytes),
                _ => None,
            });
            let host = Some(host);
            match seen.last_mut().filter(|last| last.call == call) {
                Some(last) => last.host = host,
                None => seen.push(CallReading {
                    call: call.to_string(),
                    status: String::new(),
                    elapsed_ns: 0,
                    host,
                }),
            }
        } else if programs::is_call(label)
            && let Some(status) = status
        {
            let (call, status) = (label.to_string(), status_name(status));
            seen.push(CallReading {
                call,
                status,
                elapsed_ns: *elapsed_ns,
                host: None,
            });
        }
    }
    seen
}

/// Returns the combined attempts of one case; `None` if no attempt counts, or if they do not make the same calls.
fn case(
    beside: StartBeside,
    seen: &[Vec<CallReading>],
    standing: &mut RowAttempts,
) -> Option<StartCase> {
    let calls = seen.iter().map(|attempt| {
        attempt
            .iter()
            .map(|seen| seen.call.clone())
            .collect::<Vec<_>>()
    });
    let calls = standing.agreed(&format!("{}: calls", beside.name()), calls)?;
    let (mut before, mut steps) = (None, Vec::new());
    for (at, call) in calls.into_iter().enumerate() {
        let of_call: Vec<&CallReading> =
            seen.iter().filter_map(|attempt| attempt.get(at)).collect();
        let host = host(&of_call);
        if call == programs::BEFORE {
            before = host;
            continue;
        }
        let fact = format!("{}: status of {call}", beside.name());
        let status = standing.agreed(&fact, of_call.iter().map(|seen| seen.status.clone()));
        let elapsed_ns = of_call.iter().map(|seen| seen.elapsed_ns).collect();
        steps.push(StartStep {
            call,
            status,
            elapsed_ns,
            host,
        });
    }
    Some(StartCase {
        beside,
        before,
        steps,
    })
}

/// The outputs of the step that reads host memory.
const FIGURES: [&str; 5] = [
    "resident_bytes",
    "anonymous_bytes",
    "locked_bytes",
    "pinned_bytes",
    "virtual_bytes",
];

fn host(seen: &[&CallReading]) -> Option<ProcessMemory> {
    let read: Vec<&Figures> = seen
        .iter()
        .map(|seen| seen.host.as_ref())
        .collect::<Option<_>>()?;
    let [
        resident_bytes,
        anonymous_bytes,
        locked_bytes,
        pinned_bytes,
        virtual_bytes,
    ] = [0, 1, 2, 3, 4].map(|index| {
        let figures = read
            .iter()
            .map(|figures| figures.get(index).copied().flatten());
        figures
            .collect::<Option<Vec<i64>>>()
            .and_then(FigureRange::from_figures)
    });
    Some(ProcessMemory {
        resident_bytes,
        anonymous_bytes,
        locked_bytes,
        pinned_bytes,
        virtual_bytes,
    })
}
