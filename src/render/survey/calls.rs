//! `survey calls`: what changed between libcudarts first, then what each call does.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls_calls::CallLibrary;

use super::cell::{arguments, context, frozen, library, memory, returned};
use super::changes::changes;
use super::section::Section;
use super::startup::time;
use super::{NamedSurvey, disagreements, documents, left_out};
use cuda_pitfalls_answers::survey::calls::{CallAnswer, CallRow, Recipes, latest, recipes};
use cuda_pitfalls_answers::survey::startup::Spread;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::text::versions::{Version, name, number};

pub(super) const OPENING: &str = "\
Each call was made as the first CUDA call of a fresh process, with harmless arguments. Right after it \
`CUDA_VISIBLE_DEVICES` was set to nothing, and `cuInit` and a count followed. **Reads the mask** is *yes* if the driver \
had read the variable by then, so that a mask set after the call is ignored. **Context on** lists the GPUs, by CUDA \
ordinal, that had a context after the call. **Memory** is what NVML shows as used beyond what was used before the \
process, on each GPU in NVML order. In a process that saw one GPU, `0` means that this GPU had a context; rows with two \
or more visible GPUs show which of them gets one. **After** names calls that were made first because the call needs \
what they return. They made no context. Where they had initialised the driver, it is unknown whether the call would \
have (–).

*Refused* under **arguments** means that the call returned an error: it may do more with arguments that work. *Not \
checked* means that it required an initialised library before it checked its arguments, *not supported* that this \
library, driver or GPU does not support it. `dlopen-…` are loads of a library and nothing else. **Took** is the \
median, from 1 ms on with the least and the most of all attempts; [startup](startup.md) has more of them.";

pub(super) fn sections(sources: &[NamedSurvey]) -> Vec<Section> {
    let mut documents = documents::<CallRow>(sources);
    documents.sort_by(|one, other| one.survey.started_at.cmp(&other.survey.started_at));
    let rows = latest(documents.iter().flat_map(|document| &document.rows));
    let newest = newest(&rows);
    let asked = |want: fn(&CallRow) -> bool| -> Vec<&CallRow> {
        newest.iter().copied().filter(|row| row.standing.unmeasured.is_none() && want(row)).collect()
    };
    let asked_by_any: BTreeSet<&str> = rows.iter().map(|row| row.function()).collect();
    let [changed, moved] = changes(&rows);
    vec![
        changed,
        moved,
        in_short(&rows),
        table("Calls that make a context", &asked(has_context)),
        table(
            "Calls that read the mask and make no context",
            &asked(|row| row.reads_mask == Some(true) && row.context_on.as_ref().is_some_and(Vec::is_empty)),
        ),
        table(
            "Calls that make no context, asked after the driver was initialised",
            &asked(|row| row.is_initialised_before() && row.context_on.as_ref().is_some_and(Vec::is_empty)),
        ),
        table("Calls that do not read the mask", &asked(|row| row.reads_mask == Some(false))),
        refused(&newest, &rows),
        disagreements(rows.iter().copied()),
        unmeasured(&newest),
        // What one survey left out another may have asked.
        left_out(
            documents
                .iter()
                .flat_map(|document| &document.left_out)
                .filter(|left| !asked_by_any.contains(left.name.as_str())),
        ),
    ]
}

type Count = fn(&[&CallRow]) -> usize;

/// How many functions of each library were asked, how that went, and what they did.
fn in_short(rows: &[&CallRow]) -> Section {
    let mut by_library: BTreeMap<(&str, Option<Version>), Vec<&CallRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.standing.unmeasured.is_none()) {
        let version = row.libcudart_version.as_deref().map(number);
        let CallRow { library, .. } = row;
        by_library.entry((library, version)).or_default().push(row);
    }
    let columns: [(&str, Count); 8] = [
        ("functions", |rows| rows.iter().map(|row| row.function()).collect::<BTreeSet<_>>().len()),
        ("rows", |rows| rows.len()),
        ("of these succeeded", |rows| answered(rows, CallAnswer::Succeeded)),
        ("refused", |rows| answered(rows, CallAnswer::Refused)),
        ("arguments not checked or not supported", |rows| {
            answered(rows, CallAnswer::NotInitialised) + answered(rows, CallAnswer::NotSupported)
        }),
        ("make a context", |rows| count(rows, has_context)),
        ("only read the mask", |rows| count(rows, |row| row.reads_mask == Some(true) && !has_context(row))),
        ("do not read it", |rows| count(rows, |row| row.reads_mask == Some(false))),
    ];
    let line = |((library, version), rows): ((&str, Option<Version>), Vec<&CallRow>)| {
        let name = version.map_or_else(|| library.to_string(), |version| format!("{library} {}", name(&version)));
        [name].into_iter().chain(columns.map(|(_, count)| count(&rows).to_string())).collect()
    };
    let header: Vec<&str> = ["library"].into_iter().chain(columns.map(|(heading, _)| heading)).collect();
    let text = "A function is asked in several rows where it does several things. The last three columns count rows, \
                whatever the call returned.";
    let section = Section::new("In short", &header, by_library.into_iter().map(line).collect(), &[]);
    Section { text: vec![text.to_string()], ..section }
}

fn count(rows: &[&CallRow], is_counted: impl Fn(&CallRow) -> bool) -> usize {
    rows.iter().filter(|row| is_counted(row)).count()
}

fn answered(rows: &[&CallRow], answer: CallAnswer) -> usize {
    count(rows, |row| row.answer() == Some(answer))
}

fn has_context(row: &CallRow) -> bool {
    row.context_on.as_ref().is_some_and(|on| !on.is_empty())
}

/// Functions that no row made succeed, with any libcudart, and what there is to say about that.
fn refused(newest: &[&CallRow], rows: &[&CallRow]) -> Section {
    let succeeded: BTreeSet<&str> =
        rows.iter().filter(|row| row.answer() == Some(CallAnswer::Succeeded)).map(|row| row.function()).collect();
    let rows = newest.iter().filter(|row| row.answer() == Some(CallAnswer::Refused));
    let recipes = recipes(1).ok();
    let mut by_reason: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for row in rows.filter(|row| !succeeded.contains(row.function())) {
        by_reason.entry(why_refused(row, recipes.as_ref())).or_default().insert(row.function());
    }
    let row = |(reason, functions): (String, BTreeSet<&str>)| {
        vec![reason, functions.len().to_string(), functions.into_iter().collect::<Vec<_>>().join(" ")]
    };
    let text = vec!["With arguments that work they may do more than their rows show.".to_string()];
    let rows = by_reason.into_iter().map(row).collect();
    let header = ["because", "how many", "which"];
    Section { text, only_on_pages: true, ..Section::new("Calls of which no row succeeded", &header, rows, &[2]) }
}

/// Why no row of a function succeeded.
fn why_refused(row: &CallRow, recipes: Option<&Recipes>) -> String {
    let said = recipes.and_then(|it| it.why_refused(row.function()).or_else(|| it.why_left_out(row.function())));
    match said {
        Some(why) => why.to_string(),
        None if row.library == CallLibrary::Driver.name() => {
            "returns its error before it asks for an initialised driver".to_string()
        }
        None => "other arguments were not asked yet".to_string(),
    }
}

/// Each call as the worker that saw most GPUs had it, because only such a row shows on which of them
/// there was a context; of those the one on the newest libcudart.
fn newest<'a>(rows: &[&'a CallRow]) -> Vec<&'a CallRow> {
    let mut newest: BTreeMap<(&str, &str), &CallRow> = BTreeMap::new();
    for row in rows {
        let CallRow { library, call, .. } = row;
        let key = (library.as_str(), call.as_str());
        let rank = |row: &CallRow| {
            let measured = row.standing.unmeasured.is_none();
            (measured, row.visible_gpus, row.libcudart_version.as_deref().map(number))
        };
        if newest.get(&key).is_none_or(|known| rank(known) < rank(row)) {
            newest.insert(key, row);
        }
    }
    newest.into_values().collect()
}

fn table(title: &str, rows: &[&CallRow]) -> Section {
    let row = |row: &&CallRow| {
        vec![
            row.call.clone(),
            library(row),
            row.before.join(", "),
            frozen(row),
            context(row),
            memory(row),
            returned(row),
            arguments(row).to_string(),
            took(row),
        ]
    };
    let header =
        ["call", "library", "after", "reads the mask", "context on", "memory", "returned", "arguments", "took"];
    Section::new(format!("{title} ({})", rows.len()), &header, rows.iter().map(row).collect(), &[0, 2, 6])
}

/// How long the call took: the median, with the least and the most where it takes long enough to matter.
fn took(row: &CallRow) -> String {
    let times = row.seen.iter().map(|seen| i64::try_from(seen.elapsed_ns).unwrap_or(i64::MAX));
    match Spread::of(times) {
        Some(took) if took.median >= LONG_NS => time(took),
        _ => row.elapsed_ns.map(units::duration).unwrap_or_default(),
    }
}

/// Times from this on are shown with their spread.
const LONG_NS: i64 = 1_000_000;

/// Calls that no library here has, or whose attempts do not count.
fn unmeasured(newest: &[&CallRow]) -> Section {
    let rows = newest.iter().filter_map(|row| {
        let why = row.standing.unmeasured.as_ref()?;
        Some(vec![row.call.clone(), library(row), why.reason.name(), why.detail.clone()])
    });
    Section::new("Asked and not measured", &["call", "library", "reason", "detail"], rows.collect(), &[0])
}
