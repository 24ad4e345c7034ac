//! The results of the committed surveys for calls, lines, variables, masks and needs: each with a sentence.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::explain::scenario_of_mask;
use cuda_pitfalls::known::{KnownEntry, KnownKind, NeedFacts};
use cuda_pitfalls::machine::Machine;
use cuda_pitfalls::survey::SurveyDocument;
use cuda_pitfalls::survey::calls::{CallRow, latest_rows};
use cuda_pitfalls::survey::env::EnvRow;
use cuda_pitfalls::survey::mask::{GENERATED, MaskRow};
use cuda_pitfalls::survey::needs::NeedRow;
use cuda_pitfalls::survey::python::{INSTRUMENT, PythonRow};
use cuda_pitfalls::text::counts::listed;
use cuda_pitfalls::text::units;
use cuda_pitfalls::text::versions::{Version, format_ranges, number};
use cuda_pitfalls::verdict::Reason;

use super::entry;

/// Results of surveys.
#[derive(Default)]
pub(super) struct MeasuredFacts {
    /// Effects of each call as the first call of a process, by name.
    pub(super) calls: Vec<CallFacts>,
    /// Effects of each Python line in a fresh interpreter, in the order of the survey, and the machine as text.
    pub(super) lines: Vec<(PythonRow, String)>,
    /// Time at which each environment variable is read, and the machine as text.
    pub(super) variables: Vec<(EnvRow, String)>,
    /// The GPUs that each listed mask makes visible.
    pub(super) masks: Vec<KnownEntry>,
    /// Effects of each denied file or system call, from the first call on.
    pub(super) needs: Vec<NeedFacts>,
}

/// Effects of one call as the first call of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallFacts {
    /// The C symbol; if the survey has several variants of the call, followed by a dash and a word for the variant.
    pub(super) call: String,
    /// The library of the call.
    pub(super) library: String,
    /// The machine of the measurement, as text.
    pub(super) on: String,
    /// Groups of versions with equal behavior, oldest first; a single group if only one version of the library was
    /// measured.
    runs: Vec<CallRun>,
}

/// Effects of a call with some versions of libcudart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CallRun {
    /// The versions of libcudart, such as `11.7 to 13.5`. Empty for other libraries.
    pub(super) versions: String,
    /// `true` if the call reads the mask; absent if an earlier call had read it.
    pub(super) reads_mask: Option<bool>,
    /// `true` if the call creates a context.
    pub(super) makes_context: Option<bool>,
    /// Growth of NVML's `used` on each GPU, with the newest of these versions.
    pub(super) used_bytes: Option<Vec<i64>>,
    /// The name of the status that it returned.
    pub(super) status: Option<String>,
}

impl MeasuredFacts {
    pub(super) fn new(mut surveys: Vec<&SurveyDocument>) -> MeasuredFacts {
        let mut measured = MeasuredFacts::default();
        let mut calls: Vec<(CallRow, String)> = Vec::new();
        surveys.sort_by(|survey, other| survey.header.started_at.cmp(&other.header.started_at));
        for survey in surveys {
            let machine = &survey.machine;
            calls.extend(
                survey
                    .rows_of()
                    .into_iter()
                    .map(|row| (row, machine.summary())),
            );
            survey
                .rows_of()
                .into_iter()
                .for_each(|row| measured.add_variable(row, machine));
            survey
                .rows_of()
                .into_iter()
                .for_each(|row| measured.add_line(row, machine));
            survey
                .rows_of()
                .iter()
                .for_each(|row| measured.add_mask(row, machine));
            measured.add_needs(&survey.rows_of(), machine);
        }
        measured.calls = call_facts(&calls);
        measured
    }

    /// Adds a row about a line. If a line has several rows, the last measured one counts.
    fn add_line(&mut self, row: PythonRow, machine: &Machine) {
        if row.framework == INSTRUMENT || row.standing.unmeasured.is_some() {
            return;
        }
        replace_or_push(&mut self.lines, (row, machine.summary()), |(row, _)| {
            &row.id
        });
    }

    /// Adds the effects of denials. Results that two machines agree on are stored once.
    fn add_needs(&mut self, rows: &[NeedRow], machine: &Machine) {
        // The needs of a framework in addition to the driver are not needs of CUDA.
        let of_cuda = rows.iter().filter(|row| !row.program.is_framework());
        for (row, failure) in of_cuda.filter_map(|row| Some((row, row.effect_at_start(rows)?))) {
            let (Some(refused), Some(error)) = (&row.refused, &row.error) else {
                continue;
            };
            let known = self.needs.iter_mut().find(|known| {
                (known.program, &known.refused) == (row.program, refused)
                    && (&known.call, &known.status) == (&failure.call, &failure.status)
            });
            match known {
                Some(known) if known.errors.contains(error) => {}
                Some(known) => known.errors.push(error.clone()),
                None => self.needs.push(NeedFacts {
                    program: row.program,
                    refused: refused.clone(),
                    errors: vec![error.clone()],
                    call: failure.call.clone(),
                    status: failure.status.clone(),
                    is_written: row.is_of_written_file(rows),
                    on: machine.summary(),
                }),
            }
        }
    }

    fn add_variable(&mut self, row: EnvRow, machine: &Machine) {
        if row.has_effect.is_some() && row.standing.unmeasured.is_none() {
            replace_or_push(&mut self.variables, (row, machine.summary()), |(row, _)| {
                &row.variable
            });
        }
    }

    /// Adds a mask that a user may type: not one with spaces, and not one with a UUID of these GPUs.
    fn add_mask(&mut self, row: &MaskRow, machine: &Machine) {
        let (Some(mask), Some(status)) = (&row.mask, &row.status) else {
            return;
        };
        let is_typed = !mask.is_empty()
            && mask
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'<');
        if row.group == GENERATED || !is_typed || row.order.is_some() {
            return;
        }
        let gpus = row.gpus.as_deref().unwrap_or_default();
        let shown = match gpus {
            [] => "no GPU is visible".to_owned(),
            [gpu] => format!("GPU {gpu} is visible"),
            gpus => format!(
                "{} are visible, in this order",
                listed(gpus.iter().map(|gpu| format!("GPU {gpu}")), "")
            ),
        };
        let set = format!("CUDA_VISIBLE_DEVICES={mask}");
        let mut names = vec![set.clone()];
        names.extend(mask.contains(',').then(|| mask.clone()));
        let mask = KnownEntry {
            names,
            sentence: format!(
                "With {set} cuInit returns {status}, and {shown} ({}).",
                machine.summary()
            ),
            page: "docs/surveys/mask.md".to_owned(),
            rests_on: machine.summary(),
            scenarios: scenario_of(mask, status, gpus)
                .map(str::to_owned)
                .into_iter()
                .collect(),
            ..entry(KnownKind::Mask, "mask", mask)
        };
        replace_or_push(&mut self.masks, mask, |mask| &mask.id);
    }
}

/// Returns the scenario about a mask, if the machine behaved according to its answer: `0,99,0` ends before its second 0
/// is read.
fn scenario_of(mask: &str, status: &str, gpus: &[u32]) -> Option<&'static str> {
    scenario_of_mask(mask).filter(|name| match *name {
        "visibility/duplicate-index-hides-all" => status == "CUDA_ERROR_INVALID_DEVICE",
        "visibility/invalid-index-truncates" => gpus.len() < mask.split(',').count(),
        _ => gpus.is_empty(),
    })
}

/// Puts facts in the place of those with the same name, or at the end.
fn replace_or_push<T>(all: &mut Vec<T>, facts: T, name: impl Fn(&T) -> &String) {
    match all.iter_mut().find(|known| name(known) == name(&facts)) {
        Some(known) => *known = facts,
        None => all.push(facts),
    }
}

/// Returns the effects of each call, by name. Rows are in the order of measurement.
fn call_facts(rows: &[(CallRow, String)]) -> Vec<CallFacts> {
    let standing = latest_rows(rows.iter().map(|(row, _)| row));
    let all: BTreeSet<Version> = standing
        .iter()
        .filter_map(|row| row.libcudart_version.as_deref())
        .map(number)
        .collect();
    let all: Vec<Version> = all.into_iter().collect();
    let mut by_call: BTreeMap<(&str, &str), BTreeMap<Version, &CallRow>> = BTreeMap::new();
    for row in standing {
        let version = row
            .libcudart_version
            .as_deref()
            .map(number)
            .unwrap_or_default();
        by_call
            .entry((&row.call, &row.library))
            .or_default()
            .insert(version, row);
    }
    let facts = by_call
        .into_iter()
        .filter_map(|((call, library), versions)| {
            let runs = runs(&versions, &all);
            let newest = versions
                .values()
                .rev()
                .find(|row| row.standing.unmeasured.is_none())?;
            let on = rows
                .iter()
                .find(|(row, _)| std::ptr::eq(row, *newest))?
                .1
                .clone();
            Some(CallFacts {
                call: call.to_owned(),
                library: library.to_owned(),
                on,
                runs,
            })
        });
    facts.filter(|facts| !facts.runs.is_empty()).collect()
}

/// Returns groups of consecutive versions with equal behavior. A version that does not export the call ends a group;
/// one that could not be measured for another reason is skipped.
fn runs(versions: &BTreeMap<Version, &CallRow>, all: &[Version]) -> Vec<CallRun> {
    let said = versions.iter().filter_map(|(version, row)| {
        let behaviour = match row
            .standing
            .unmeasured
            .as_ref()
            .map(|unmeasured| unmeasured.reason)
        {
            None => Some((row.reads_mask, row.makes_context(), row.status.clone())),
            Some(Reason::MissingSymbol) => None,
            Some(_) => return None,
        };
        Some((version, behaviour, *row))
    });
    let said: Vec<(&Version, Option<_>, &CallRow)> = said.collect();
    let runs = said
        .chunk_by(|(_, one, _), (_, other, _)| one == other)
        .filter_map(|run| {
            let (reads_mask, makes_context, status) = run.first()?.1.clone()?;
            let versions: Vec<Version> =
                run.iter().map(|(version, ..)| (*version).clone()).collect();
            // The memory comes from the newest version.
            let used_bytes = run
                .iter()
                .rev()
                .find_map(|(.., row)| row.device_used_bytes.clone());
            Some(CallRun {
                versions: format_ranges(&versions, all),
                reads_mask,
                makes_context,
                used_bytes,
                status,
            })
        });
    runs.collect()
}

impl CallFacts {
    /// Returns the C function.
    pub(super) fn function(&self) -> &str {
        self.call
            .split_once('-')
            .map_or(self.call.as_str(), |(function, _)| function)
    }

    pub(super) fn sentence(&self) -> String {
        let runs: Vec<String> = self
            .runs
            .iter()
            .map(|run| run.clause(&self.library))
            .collect();
        format!(
            "As the first call of a process {} {} ({}).",
            self.call,
            runs.join("; "),
            self.on
        )
    }
}

impl CallRun {
    fn clause(&self, library: &str) -> String {
        let mut parts = vec![mask_clause(self.reads_mask).to_owned()];
        parts.push(match self.makes_context {
            Some(true) => "creates a context".to_owned(),
            Some(false) => "creates no context".to_owned(),
            None => "has no measured result for contexts".to_owned(),
        });
        parts.extend(memory(self.used_bytes.as_deref()));
        let failed = self
            .status
            .iter()
            .filter(|status| !status.to_lowercase().contains("success"));
        parts.extend(failed.map(|status| format!("returns {status}")));
        let versions = if self.versions.is_empty() {
            library.to_owned()
        } else {
            format!("libcudart {}", self.versions)
        };
        format!("{}: {versions}", parts.join(", "))
    }
}

pub(super) fn line_sentence((line, on): &(PythonRow, String)) -> String {
    let facts = &line.facts;
    let at = match &facts.at {
        Some(at) if facts.reads_mask == Some(true) => format!(" (at {at})"),
        _ => String::new(),
    };
    let mut parts = vec![format!("{}{at}", mask_clause(facts.reads_mask))];
    parts.push(match facts.context_on.as_deref() {
        None => "has no measured result for contexts".to_owned(),
        Some([]) => "creates no context".to_owned(),
        Some(on) => format!(
            "creates a context on {}",
            listed(on.iter().map(|gpu| format!("GPU {gpu}")), "")
        ),
    });
    parts.extend(memory(facts.device_used_bytes.as_deref()));
    parts.extend(
        facts
            .raised
            .iter()
            .map(|raised| format!("raises {}", raised.kind)),
    );
    let versions: Vec<String> = line
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let with = if versions.is_empty() {
        String::new()
    } else {
        format!("{}; ", versions.join(", "))
    };
    format!(
        "In a fresh process {} {} ({with}{on}).",
        line.id,
        parts.join(", ")
    )
}

pub(super) fn variable_sentence((row, on): &(EnvRow, String)) -> String {
    let EnvRow {
        variable, value, ..
    } = row;
    match (row.has_effect, &row.read_at) {
        (Some(true), Some(at)) => {
            format!("{variable} is read at {at}; a value that is set later has no effect ({on}).")
        }
        (Some(true), None) => {
            format!("{variable} has an effect; when it is read is unknown ({on}).")
        }
        _ => format!("{variable}={value} had no effect, whenever it was set ({on})."),
    }
}

/// Returns the failures without each file and system call.
pub(super) fn need_entries(needs: &[NeedFacts]) -> Vec<KnownEntry> {
    let mut entries: Vec<KnownEntry> = Vec::new();
    for need in needs {
        let errors = listed(need.errors.iter(), "");
        let NeedFacts {
            refused,
            call,
            status,
            on,
            ..
        } = need;
        let sentence =
            format!("If {refused} is denied ({errors}), {call} returns {status} ({on}).");
        match entries
            .iter_mut()
            .find(|entry| entry.names.first() == Some(refused))
        {
            Some(known) => known.sentence = format!("{} {sentence}", known.sentence),
            None => entries.push(KnownEntry {
                sentence,
                page: "docs/surveys/needs.md".to_owned(),
                rests_on: on.clone(),
                ..entry(KnownKind::Need, "need", refused)
            }),
        }
    }
    entries
}

const fn mask_clause(mask: Option<bool>) -> &'static str {
    match mask {
        Some(true) => "reads the mask",
        Some(false) => "does not read the mask",
        None => "was measured after the mask had been read",
    }
}

/// Returns the growth of memory on the GPU where it grew most, because the others have the footprint of `cuInit` at
/// most.
fn memory(used: Option<&[i64]>) -> Option<String> {
    let most = *used?.iter().max()?;
    Some(if most == 0 {
        "uses no memory".to_owned()
    } else {
        format!("uses {}", units::bytes(most.unsigned_abs()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls::survey::{RowAttempts, Unmeasured};

    fn row(version: &str, reads_mask: bool, makes_context: bool) -> CallRow {
        CallRow {
            call: "cudaSetDevice".to_owned(),
            library: "libcudart".to_owned(),
            libcudart_version: Some(version.to_owned()),
            reads_mask: Some(reads_mask),
            context_on: Some(if makes_context { vec![0] } else { Vec::new() }),
            ..CallRow::default()
        }
    }

    fn absent(version: &str, reason: Reason) -> CallRow {
        let unmeasured = Some(Unmeasured {
            reason,
            detail: String::new(),
        });
        CallRow {
            standing: RowAttempts {
                unmeasured,
                ..RowAttempts::default()
            },
            ..row(version, false, false)
        }
    }

    fn facts(rows: &[CallRow]) -> Vec<CallFacts> {
        call_facts(
            &rows
                .iter()
                .map(|row| (row.clone(), String::new()))
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn versions_that_do_alike_are_one_run_and_a_change_begins_another() {
        let rows = [
            row("12.9", true, true),
            row("11.7", false, false),
            row("12.10", true, true),
        ];
        let facts = facts(&rows);
        assert_eq!(facts.len(), 1);
        let said: Vec<(&str, Option<bool>)> = facts[0]
            .runs
            .iter()
            .map(|run| (run.versions.as_str(), run.makes_context))
            .collect();
        assert_eq!(said, [("11.7", Some(false)), ("12.9 to 12.10", Some(true))]);
    }

    #[test]
    fn a_version_without_the_call_is_in_no_run() {
        let rows = [
            absent("11.7", Reason::MissingSymbol),
            row("12.0", true, true),
            absent("13.0", Reason::Crashed),
        ];
        assert_eq!(facts(&rows)[0].runs[0].versions, "12.0");
        assert!(facts(&rows[..1]).is_empty());
    }

    #[test]
    fn a_mask_has_the_question_about_its_value_only_where_the_machine_did_what_it_answers() {
        let twice = Some("visibility/duplicate-index-hides-all");
        assert_eq!(scenario_of("0,0", "CUDA_ERROR_INVALID_DEVICE", &[]), twice);
        assert_eq!(scenario_of("0,99,0", "CUDA_SUCCESS", &[0]), None);
        assert_eq!(
            scenario_of("0,-1,1", "CUDA_SUCCESS", &[0]),
            Some("visibility/invalid-index-truncates")
        );
        assert_eq!(scenario_of("+1,-0", "CUDA_SUCCESS", &[1, 0]), None);
        assert_eq!(scenario_of("-4294967295", "CUDA_SUCCESS", &[1]), None);
    }
}
