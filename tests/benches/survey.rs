//! What a survey costs: its wall time against the sum of bare C processes that make the same first
//! calls on the same machine.
//!
//! `cargo bench --bench survey -- SURVEY.json…` builds the bare program with `cc`; on a machine
//! without cargo, carry this program and the bare one there and run `survey BARE SURVEY.json…`. Each
//! first call is made once per row (of long surveys, of every so many rows) and counted as often as
//! the survey made it. Ratios are of one machine at one time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cuda_pitfalls::clock;
use cuda_pitfalls::machine::Runtime;
use cuda_pitfalls::mask::Template;
use cuda_pitfalls::report::Stored;
use cuda_pitfalls::scenario::{Scalar, Step};
use cuda_pitfalls::survey::calls::CallRow;
use cuda_pitfalls::survey::document::Row;
use cuda_pitfalls::survey::{Survey, calls};
use cuda_pitfalls_calls::{CallLibrary, Output, ParamKind};

/// At most so many bare processes per survey.
const MOST_BARE: usize = 120;

/// One bare process: its arguments and environment, and how often the survey did the same.
struct Bare {
    arguments: Vec<String>,
    environment: BTreeMap<&'static str, String>,
    times: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).filter(|path| path.is_file()).collect();
    let (surveys, programs): (Vec<_>, Vec<_>) =
        given.into_iter().partition(|path| path.extension().is_some_and(|extension| extension == "json"));
    if surveys.is_empty() {
        eprintln!("no survey was named: cargo bench --bench survey -- SURVEY.json…");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let program = match programs.into_iter().next() {
        Some(program) => program,
        None => build(folder.path())?,
    };
    let mut document = BTreeMap::new();
    for path in surveys {
        let stored = Stored::open(&path)?;
        let survey = Survey::of(&stored).ok_or("not a survey")??;
        document.insert(survey.kind().name(), compare(&survey, &program)?);
    }
    println!("{}", serde_json::to_string_pretty(&document)?);
    Ok(())
}

fn compare(survey: &Survey, program: &Path) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let all = bare(survey)?;
    let every = all.len().div_ceil(MOST_BARE).max(1);
    let (mut sampled, mut sampled_times, mut bare_ns, mut failed) = (0u64, 0u64, 0u64, 0u64);
    for one in all.iter().step_by(every) {
        let started = clock::now_ns();
        let mut command = Command::new(program);
        command.args(&one.arguments).env_remove("CUDA_VISIBLE_DEVICES").envs(&one.environment);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let took = clock::now_ns() - started;
        if !status.success() {
            failed += 1;
            continue;
        }
        sampled += 1;
        sampled_times += one.times;
        bare_ns += took * one.times;
    }
    // Some calls take what the bare program cannot pass; they are taken to cost what the others do.
    let attempts = attempts(survey);
    let represented: u64 = all.iter().map(|one| one.times).sum();
    let scaled = bare_ns as f64 * attempts as f64 / sampled_times.max(1) as f64;
    let header = survey.header();
    Ok(serde_json::json!({
        "survey wall_ns": header.elapsed_ns,
        "of that in attempts, ns": header.attempts_ns,
        "attempts": attempts,
        "of these, of calls that the bare program cannot make": attempts - represented,
        "bare processes timed": sampled,
        "bare processes that failed": failed,
        "bare, as often as the survey asked, wall_ns": scaled as u64,
        "survey wall / bare wall": header.elapsed_ns as f64 / scaled,
    }))
}

/// Attempts that count, of all rows.
fn attempts(survey: &Survey) -> u64 {
    fn sum<R: Row>(rows: &[R]) -> u64 {
        rows.iter().map(|row| u64::from(row.standing().attempts)).sum()
    }
    match survey {
        Survey::Calls(document) => sum(&document.rows),
        Survey::Mask(document) => sum(&document.rows),
        Survey::Env(document) => sum(&document.rows),
        Survey::Needs(document) => sum(&document.rows),
        Survey::Python(document) => sum(&document.rows),
        Survey::Errors(document) => sum(&document.rows),
        Survey::Startup(document) => sum(&document.rows),
    }
}

/// The first call of every attempt that a survey made.
fn bare(survey: &Survey) -> Result<Vec<Bare>, Box<dyn std::error::Error>> {
    let uuids: Vec<String> = survey.machine().gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    let init = || vec!["libcuda.so.1".to_string(), "cuInit".to_string(), "0".to_string()];
    let one_gpu = uuids.first().cloned().unwrap_or_default();
    Ok(match survey {
        Survey::Python(_) | Survey::Errors(_) => {
            return Err("a line of Python has no bare C process to be compared with".into());
        }
        Survey::Startup(_) => return Err("its rows are times themselves".into()),
        Survey::Needs(_) => return Err("a bare C process has no filter".into()),
        Survey::Env(document) => {
            let environment = BTreeMap::from([("CUDA_VISIBLE_DEVICES", one_gpu)]);
            let of = |times| Bare { arguments: init(), environment: environment.clone(), times };
            document.rows.iter().map(|row| of(u64::from(row.standing.attempts))).collect()
        }
        Survey::Mask(document) => {
            let mut all = Vec::new();
            for row in &document.rows {
                let mut environment = BTreeMap::from([(
                    "CUDA_DEVICE_ORDER",
                    row.order.clone().unwrap_or_else(|| "PCI_BUS_ID".to_string()),
                )]);
                if let Some(mask) = &row.mask {
                    let template = Template::parse(mask).map_err(|error| format!("{mask}: {error}"))?;
                    let filled = template.fill(&uuids).map_err(|error| format!("{mask}: {error}"))?;
                    environment.insert("CUDA_VISIBLE_DEVICES", filled);
                }
                all.push(Bare { arguments: init(), environment, times: u64::from(row.standing.attempts) });
            }
            all
        }
        Survey::Calls(document) => {
            let items = calls::items(1).map_err(|wrong| format!("{:?}", wrong.diagnostics))?;
            let steps: BTreeMap<String, Step> = items
                .into_iter()
                .filter_map(|item| {
                    let step = item.question.scenario.instances.first()?.cases.first()?.steps.first()?.clone();
                    Some((item.question.key, step))
                })
                .collect();
            let runtime = |version: &String| {
                let of_version = |runtime: &&Runtime| runtime.version.as_ref() == Some(version);
                document.machine.libcudart.iter().find(of_version).map(|runtime| runtime.path.clone())
            };
            let of = |row: &CallRow| {
                let seen: Vec<String> = uuids.iter().take(row.visible_gpus as usize).cloned().collect();
                let step = steps.get(&row.call)?;
                let origin = cuda_pitfalls_calls::find(&step.call)?.library;
                let file = match (origin, &row.libcudart_version) {
                    (CallLibrary::Driver, _) => "libcuda.so.1".to_string(),
                    (CallLibrary::Nvml, _) => "libnvidia-ml.so.1".to_string(),
                    (CallLibrary::Runtime, Some(version)) => runtime(version)?,
                    _ => return None,
                };
                let mut arguments = vec![file, step.call.clone()];
                arguments.extend(words(step)?);
                let environment = BTreeMap::from([("CUDA_VISIBLE_DEVICES", seen.join(","))]);
                Some(Bare { arguments, environment, times: u64::from(row.standing.attempts) })
            };
            document.rows.iter().filter(|row| row.standing.attempts > 0).filter_map(of).collect()
        }
    })
}

/// The C arguments of a step, as the bare program takes them. None for what it cannot pass.
fn words(step: &Step) -> Option<Vec<String>> {
    let call = cuda_pitfalls_calls::find(&step.call)?;
    call.params
        .iter()
        .map(|param| match (param.kind, step.args.get(param.name)) {
            (ParamKind::Fixed(value), _) => Some(value.to_string()),
            (ParamKind::Out(Output::Struct(layout)), _) => {
                let mut bytes = vec![0u8; layout.preset.iter().map(|word| word.offset + 4).max().unwrap_or(0)];
                for word in &layout.preset {
                    bytes.get_mut(word.offset..word.offset + 4)?.copy_from_slice(&word.value.to_le_bytes());
                }
                Some(format!("x:{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
            }
            (ParamKind::Out(_), _) => Some("@".to_string()),
            (ParamKind::Constant(of), Some(Scalar::Text(name))) => of.value(name).map(|value| value.to_string()),
            (ParamKind::Handle(_), Some(Scalar::Text(name))) if name == "NULL" => Some("0".to_string()),
            (ParamKind::Text, Some(text)) => Some(format!("t:{text}")),
            (_, Some(Scalar::Int(value))) => Some(value.to_string()),
            (_, None) => param.default.map(|value| value.to_string()),
            _ => None,
        })
        .collect()
}

fn build(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let program = folder.join("first");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/benches/first.c");
    let status = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).arg("-ldl").status()?;
    if status.success() { Ok(program) } else { Err("cc failed".into()) }
}
