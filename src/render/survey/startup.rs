//! `survey startup`: times by the number of visible GPUs, times beside another process, and host memory.

use super::section::Section;
use super::{NamedSurvey, disagreements, documents, unmeasured};
use cuda_pitfalls_answers::survey::document::SurveyDocument;
use cuda_pitfalls_answers::survey::startup::{HostMemory, Spread, StartBeside, StartCase, StartProgram, StartRow};
use cuda_pitfalls_core::text::counts::tally;
use cuda_pitfalls_core::text::units;

pub(super) const OPENING: &str = "\
Each program ran in fresh processes that see so many GPUs, and each call was timed inside it. A time is the median, \
with the least and the most of all attempts. The cases take turns. Files were in the page cache: the first start after \
a boot was not measured.

NVML was read after each call, in another process that keeps the GPUs' device files open all the time. So these are \
times on a machine on which some process keeps the driver loaded, as persistence mode does. What the first process of \
all pays without either was not measured. [Overhead](../overhead.md) says what the reading itself adds.

**Alone** is without another process of the survey. A stranger's that has called cuInit makes these times as short as \
the next column's, and NVML does not list it: measure on a machine that nobody else uses.

Host memory is what `/proc/PID/status` has after the call: **resident** is VmRSS, **its own** RssAnon, **locked** \
VmLck, **pinned** VmPin, **address space** VmSize.";

pub(super) fn sections(sources: &[NamedSurvey]) -> Vec<Section> {
    documents(sources).into_iter().flat_map(of_machine).collect()
}

fn of_machine(document: &SurveyDocument<StartRow>) -> Vec<Section> {
    let machine = document.machine.summary();
    let title = |text: String| format!("{text} ({machine})");
    let measured = || document.rows.iter().filter(|row| row.standing.unmeasured.is_none());
    let mut programs: Vec<(StartProgram, Option<&str>)> =
        measured().map(|row| (row.program, row.libcudart_version.as_deref())).collect();
    programs.dedup();
    let mut sections = Vec::new();
    for (program, version) in programs {
        let is_of = |row: &&StartRow| (row.program, row.libcudart_version.as_deref()) == (program, version);
        let rows: Vec<&StartRow> = measured().filter(is_of).collect();
        let name = version.map_or_else(|| name(program).to_string(), |version| format!("{} {version}", name(program)));
        // Of one row, the next table says the same.
        if rows.len() > 1 {
            sections.push(by_visible(title(format!("{name}: time of each call")), &rows));
        }
        sections
            .extend(rows.iter().map(|row| beside(title(format!("{name}, {}: time of each call", visible(row))), row)));
        sections.extend(rows.iter().filter_map(|row| {
            let alone = row.case(StartBeside::Alone)?;
            Some(host(title(format!("{name}, {}: host memory", visible(row))), alone))
        }));
    }
    sections.push(disagreements(document.rows.iter()));
    sections.push(unmeasured(title("Asked and not measured".to_string()), document.rows.iter()));
    sections
}

fn name(program: StartProgram) -> &'static str {
    match program {
        StartProgram::Driver => "libcuda",
        StartProgram::Runtime => "libcudart",
        StartProgram::Nvml => "NVML",
    }
}

fn visible(row: &StartRow) -> String {
    match row.visible_gpus {
        1 => "1 GPU".to_string(),
        gpus => format!("{gpus} GPUs"),
    }
}

/// Times by the number of visible GPUs, with no other process of ours.
fn by_visible(title: String, rows: &[&StartRow]) -> Section {
    let header = ["call".to_string()].into_iter().chain(rows.iter().map(|row| visible(row))).collect();
    let cases: Vec<Option<&StartCase>> = rows.iter().map(|row| row.case(StartBeside::Alone)).collect();
    Section { title, header, rows: lines(&cases), code: vec![0], ..Section::default() }
}

/// Times beside a process that has done more and more.
fn beside(title: String, row: &StartRow) -> Section {
    let all = [StartBeside::Alone, StartBeside::Initialised, StartBeside::Context];
    let header = ["call", "alone", "the other has called cuInit", "the other has a context"];
    let cases: Vec<Option<&StartCase>> = all.iter().map(|beside| row.case(*beside)).collect();
    Section::new(title, &header, lines(&cases), &[0])
}

/// A line for each call, with its time in each case.
fn lines(cases: &[Option<&StartCase>]) -> Vec<Vec<String>> {
    let calls = tally(cases.iter().flatten().flat_map(|case| &case.steps).map(|step| step.call.as_str()));
    let line = |(call, _): &(&str, usize)| {
        let times = cases.iter().map(|case| {
            let Some(step) = case.and_then(|case| case.step(call)) else { return "–".to_string() };
            let took = step.took().map(time).unwrap_or_else(|| "?".to_string());
            match &step.status {
                Some(status) if is_success(status) => took,
                Some(status) => format!("{status}, {took}"),
                None => format!("?, {took}"),
            }
        });
        [call.to_string()].into_iter().chain(times).collect()
    };
    calls.iter().map(line).collect()
}

fn is_success(status: &str) -> bool {
    ["CUDA_SUCCESS", "cudaSuccess", "NVML_SUCCESS"].contains(&status)
}

/// A time with its spread: `101 ms (98 ms to 110 ms)`.
pub(super) fn time(took: Spread) -> String {
    let [least, median, most] = [took.least, took.median, took.most].map(|ns| units::duration(ns.unsigned_abs()));
    if least == most { median } else { format!("{median} ({least} to {most})") }
}

fn host(title: String, case: &StartCase) -> Section {
    let cells = |call: &str, memory: &Option<HostMemory>| {
        let figure =
            |of: fn(&HostMemory) -> Option<Spread>| memory.as_ref().and_then(of).map_or_else(|| "–".to_string(), size);
        vec![
            call.to_string(),
            figure(|memory| memory.resident_bytes),
            figure(|memory| memory.anonymous_bytes),
            figure(|memory| memory.locked_bytes),
            figure(|memory| memory.pinned_bytes),
            figure(|memory| memory.virtual_bytes),
        ]
    };
    let before = [cells("(before the first call)", &case.before)];
    let after = case.steps.iter().map(|step| cells(&step.call, &step.host));
    let header = ["after", "resident", "its own", "locked", "pinned", "address space"];
    Section::new(title, &header, before.into_iter().chain(after).collect(), &[0])
}

/// A size with its spread, where that is more than a hundredth.
fn size(bytes: Spread) -> String {
    let [least, median, most] = [bytes.least, bytes.median, bytes.most].map(|bytes| units::bytes(bytes.unsigned_abs()));
    let is_narrow = bytes.most - bytes.least <= bytes.median / 100;
    if is_narrow { median } else { format!("{median} ({least} to {most})") }
}
