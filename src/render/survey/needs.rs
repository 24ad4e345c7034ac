//! `survey needs`: what is needed, and what each refusal causes.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::{NamedSurvey, disagreements, documents, left_out, unmeasured};
use cuda_pitfalls_answers::survey::document::{Row, SurveyDocument};
use cuda_pitfalls_answers::survey::needs::{Least, NeedRow, NeedsMoment, NeedsProgram, least};
use cuda_pitfalls_core::text::counts::{grouped, listed};

pub(super) const OPENING: &str = "\
A program of a few calls ran under a filter that saw every system call. It ran again for each file and each system call \
that it had asked for, with that one refused by one error, from one moment on. Only the program was refused anything, \
not the machine. A row says what the first call returned that did not return what it returns otherwise. Controls are \
the program without a filter, and with a filter that refuses nothing.\n\n\
Of a framework only that was refused which the driver's program had not asked for: the system calls, and the files in \
/dev, /proc, /sys, /run, /var and /etc.";

pub(super) fn sections(sources: &[NamedSurvey]) -> Vec<Section> {
    let documents: Vec<&SurveyDocument<NeedRow>> = documents(sources);
    let mut sections = Vec::new();
    for (source, document) in sources.iter().zip(&documents) {
        let title = |text: &str| source.title(text, sources.len());
        let at = |is_early: bool| {
            document.rows.iter().filter(move |row| (row.moment == NeedsMoment::Init) == is_early).collect::<Vec<_>>()
        };
        sections.push(needed(title("Needed from the start"), document, &at(true)));
        sections.push(needed(title("Needed later, and by children"), document, &at(false)));
        sections.push(least_of_each(title("The least that is needed"), document));
        sections.push(harmless(title("Refused without effect"), document));
        sections.push(record(title("Asked for, call by call"), document));
    }
    sections.push(disagreements(documents.iter().flat_map(|document| &document.rows)));
    let rows = documents.iter().flat_map(|document| &document.rows);
    sections.push(unmeasured("Asked and not measured".to_string(), rows));
    sections.push(left_out(documents.iter().flat_map(|document| &document.left_out)));
    sections
}

/// What a row shows that its control does not; `None` for a row without effect.
fn effect(row: &NeedRow, rows: &[NeedRow]) -> Option<String> {
    let control = row.control(rows)?;
    if row.is_control() || !row.is_conclusive() || !row.differs(control) {
        return None;
    }
    if let Some(died) = &row.died {
        if row.moment == NeedsMoment::Spawned && died.by == "child" {
            return Some("the fresh process does not start".to_string());
        }
        let at = died.at.as_ref().map(|at| format!(" in {at}")).unwrap_or_default();
        return Some(format!("{}{at}", died.by));
    }
    let (usual, seen) = (control.gpus.clone().unwrap_or_default(), row.gpus.clone().unwrap_or_default());
    let failure = row.first_failure(control).map(|failure| format!("{}: {}", failure.call, failure.status));
    // A GPU that is gone makes its ordinal fail too; that is the same thing, said once.
    if row.is_counted_anew(control) {
        let gone: Vec<String> =
            usual.iter().filter(|gpu| !seen.contains(gpu)).map(|gpu| format!("GPU {gpu}")).collect();
        let first = seen.first().filter(|first| usual.first() != Some(*first));
        let first = first.map(|gpu| format!("; ordinal 0 is GPU {gpu}")).unwrap_or_default();
        return Some(format!("{} not counted{first}", gone.join(" and ")));
    }
    failure.or_else(|| Some("no GPU is seen".to_string()))
}

/// What is refused, by which errors and with which effect; one row for all that has the same. The call that fails tells
/// which program it is. From when on it is refused is a column where it differs.
fn needed(title: String, document: &SurveyDocument<NeedRow>, rows: &[&NeedRow]) -> Section {
    let is_late = rows.iter().any(|row| row.moment != NeedsMoment::Init);
    let each = rows.iter().filter(|row| row.is_alone()).filter_map(|row| {
        let (effect, refused, error) = (effect(row, &document.rows)?, row.refused.as_deref()?, row.error.as_deref()?);
        Some(((refused, row.program, row.moment, effect), error))
    });
    let of_effect = grouped(each)
        .into_iter()
        .map(|((refused, program, moment, effect), errors)| ((program, moment, errors.join(", "), effect), refused));
    let row = |((_, moment, errors, effect), refused): ((NeedsProgram, NeedsMoment, String, String), Vec<&str>)| {
        let from = is_late.then(|| when(moment).to_string());
        [effect, refused.join(", "), errors].into_iter().chain(from).collect()
    };
    let header = ["first effect", "refused", "with"].into_iter().chain(is_late.then_some("from"));
    let header: Vec<&str> = header.collect();
    Section::new(title, &header, grouped(of_effect).into_iter().map(row).collect(), &[1, 2])
}

fn when(moment: NeedsMoment) -> &'static str {
    match moment {
        NeedsMoment::Init => "before the first call",
        NeedsMoment::Context => "after cuInit",
        NeedsMoment::Use => "in use",
        NeedsMoment::Forked => "before a fork",
        NeedsMoment::Spawned => "before a fresh process",
    }
}

/// What each program needs, and whether it works with everything else refused.
fn least_of_each(title: String, document: &SurveyDocument<NeedRow>) -> Section {
    let row = |program: NeedsProgram| {
        let least = least(&document.rows, program);
        let Least { needed, refusable, one_of, confirmed, doubtful, .. } = &least;
        let is_needed = |what: &str| needed.iter().any(|one| one == what);
        let only: Vec<String> = document
            .rows
            .iter()
            .filter(|row| (row.program, row.moment) == (program, NeedsMoment::Init))
            .filter_map(|row| Some((row.refused.as_deref()?, row.error.as_deref()?, effect(row, &document.rows)?)))
            .filter(|(refused, ..)| !is_needed(refused) && refusable.contains_key(*refused))
            .map(|(refused, error, _)| format!("{refused}, except by {error}"))
            .collect();
        let verified = match least.is_enough() {
            None => "not asked".to_string(),
            Some(false) => "no: something else is needed too".to_string(),
            Some(true) => format!(
                "yes{}: {} of {} break it if they are refused too{}",
                if one_of.is_empty() {
                    String::new()
                } else {
                    format!(" if one of these is allowed: {}", list(one_of))
                },
                confirmed.len(),
                needed.len(),
                if doubtful.is_empty() { String::new() } else { format!("; not {}", list(doubtful)) }
            ),
        };
        let needed = if program.is_framework() { format!("beside the driver: {}", list(needed)) } else { list(needed) };
        vec![program.name(), needed, only.join("; "), refusable.len().to_string(), verified]
    };
    let is_asked =
        |program: &NeedsProgram| document.rows.iter().any(|row| row.program == *program && row.error.is_some());
    let header = ["program", "needs", "may be refused", "refused together", "works with them refused"];
    Section::new(title, &header, NeedsProgram::ALL.into_iter().filter(is_asked).map(row).collect(), &[])
}

fn list(all: &BTreeSet<String>) -> String {
    listed(all, "")
}

/// What can be refused to a program that needs nothing of it.
fn harmless(title: String, document: &SurveyDocument<NeedRow>) -> Section {
    let mut all: BTreeMap<(NeedsProgram, NeedsMoment), BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for row in document.rows.iter().filter(|row| row.is_conclusive() && row.met == Some(true)) {
        let is_harmless = row.control(&document.rows).is_some_and(|control| !row.differs(control));
        if let (true, Some(refused), Some(error)) = (is_harmless, &row.refused, &row.error) {
            all.entry((row.program, row.moment)).or_default().entry(refused).or_default().push(error);
        }
    }
    let row = |((program, moment), refused): ((NeedsProgram, NeedsMoment), BTreeMap<&str, Vec<&str>>)| {
        let refused = refused.into_iter().map(|(refused, errors)| format!("{refused} ({})", errors.join(", ")));
        vec![program.name(), when(moment).to_string(), refused.collect::<Vec<_>>().join("; ")]
    };
    let rows = all.into_iter().map(row).collect();
    Section { only_on_pages: true, ..Section::new(title, &["to", "from", "refused"], rows, &[]) }
}

/// The files and system calls of each call.
fn record(title: String, document: &SurveyDocument<NeedRow>) -> Section {
    let records = document.rows.iter().filter(|row| row.moment == NeedsMoment::Init);
    let rows = records.flat_map(|row| {
        row.asked.iter().map(|asked| {
            let files = asked.files.iter().filter(|(path, _)| !path.contains(".so"));
            let files = files.map(|(path, used)| {
                let how = if used.written { " (written)" } else { "" };
                format!("{path}{}{how}", if used.exists { "" } else { " (not there)" })
            });
            let calls = asked.system_calls.iter().map(|(call, times)| format!("{call} {times}"));
            vec![
                row.program.name(),
                asked.during.clone(),
                files.collect::<Vec<_>>().join("; "),
                calls.collect::<Vec<_>>().join(", "),
            ]
        })
    });
    let header = ["program", "during", "files", "system calls"];
    Section { only_on_pages: true, ..Section::new(title, &header, rows.collect(), &[1]) }
}
