//! `survey startup`: times by the number of visible GPUs, times while another process runs, and host memory.

use serde_json::{Value, json};

use super::table::time;
use super::{NamedSurvey, rows_with};
use cuda_pitfalls_answers::survey::FactRow;
use cuda_pitfalls_answers::survey::startup::{StartBeside, StartProgram, StartRow, StartStep};
use cuda_pitfalls_core::text::counts::counted;

/// Returns the rows, each with the titles of its tables, and its data on each call.
pub(super) fn rows(sources: &[NamedSurvey]) -> Vec<FactRow> {
    rows_with(sources, |row: &StartRow, rows, facts| {
        let gpus = counted(row.visible_gpus, "GPU");
        let program = match (row.program, &row.libcudart_version) {
            (StartProgram::Driver, _) => "libcuda".to_string(),
            (StartProgram::Nvml, _) => "NVML".to_string(),
            (StartProgram::Runtime, None) => "libcudart".to_string(),
            (StartProgram::Runtime, Some(version)) => format!("libcudart {version}"),
        };
        let measured = rows
            .iter()
            .filter(|other| other.standing.unmeasured.is_none());
        let alike = measured.filter(|other| {
            (other.program, &other.libcudart_version) == (row.program, &row.libcudart_version)
        });
        // For a single row, the table of its cases has the same data.
        facts.set("has_others", alike.count() > 1);
        facts.set("by_gpus", format!("{program}: time of each call"));
        facts.set("by_case", format!("{program}, {gpus}: time of each call"));
        facts.set("by_call", format!("{program}, {gpus}: host memory"));
        let cases = row
            .cases
            .iter()
            .flat_map(|case| case.steps.iter().map(|step| (case.beside, step)));
        facts.set(
            "alone",
            call_times(
                &gpus,
                cases
                    .clone()
                    .filter(|(beside, _)| *beside == StartBeside::Alone),
            ),
        );
        facts.set("times", call_times(&gpus, cases));
        let Some(case) = row.case(StartBeside::Alone) else {
            return;
        };
        let after = case
            .steps
            .iter()
            .map(|step| (step.call.as_str(), &step.host));
        let memory = [("(before the first call)", &case.before)]
            .into_iter()
            .chain(after)
            .map(|(after, host)| {
                let mut entry = json!(host).as_object().cloned().unwrap_or_default();
                entry.insert("after".to_string(), after.into());
                Value::Object(entry)
            });
        facts.set("memory", memory.collect::<Value>());
    })
}

fn call_times<'a>(gpus: &str, steps: impl Iterator<Item = (StartBeside, &'a StartStep)>) -> Value {
    let times = steps
        .map(|(beside, step)| json!({"call": step.call, "beside": beside.name(), "gpus": gpus, "took": took_words(step)}));
    times.collect()
}

/// Returns the duration of a call, after its status if that is an error.
fn took_words(step: &StartStep) -> String {
    let took = step.elapsed_range().map_or_else(|| "?".to_string(), time);
    match step.status.as_deref() {
        Some("CUDA_SUCCESS" | "cudaSuccess" | "NVML_SUCCESS") => took,
        status => format!("{}, {took}", status.unwrap_or("?")),
    }
}
