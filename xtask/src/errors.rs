//! docs/errors.md: what each error means, what causes it and what to do first, for readers who have its message.

use std::fmt::Write as _;

use crate::page::to_markdown;
use cuda_pitfalls::explain::{self, Advice, ErrorCause};
use cuda_pitfalls_calls::{CallLibrary, status};

/// Where the page has what is known of an error, a message or a symptom, below the root of the repository.
pub fn advice_link(advice: &Advice) -> String {
    format!("docs/errors.md#{}", advice.id.replace('/', "-"))
}

/// The page of what `explain` knows of errors.
pub fn page() -> String {
    let causes: Vec<&ErrorCause> = explain::all_advice()
        .iter()
        .flat_map(|advice| &advice.causes)
        .collect();
    let measured = causes.iter().filter(|cause| cause.is_measured()).count();
    let mut out = format!(
        "<!-- Made from scenarios/errors.toml; see CONTRIBUTING.md. -->\n# Errors, their causes, and what to do \
         first\n\n`cuda-pitfalls explain` answers a message or a whole log from this list ([explain.md](explain.md)). \
         Of {} causes {measured} were measured here, and link the scenario or the survey; the others link where they \
         were read. They stand in the order in which to look; how often each occurs is not known. \
         [surveys/errors.md](surveys/errors.md) says what frameworks make of an error of the driver.\n",
        causes.len()
    );
    for advice in explain::all_advice() {
        write_advice(&mut out, advice);
    }
    out.push_str(
        "\n<a id=\"xids\"></a>\n\n## Xids: numbers in the kernel's log\n\nRead in NVIDIA's catalog and in the header of \
         the driver on 2026-11-28 ([scenarios/xids.toml](../scenarios/xids.toml)), and not measured. Numbers that \
         today's drivers do not print are left out.\n\n| Xid | name | meaning | first |\n| --- | --- | --- | --- |\n",
    );
    for (xid, advice) in explain::all_xids()
        .iter()
        .filter(|(xid, _)| xid.is_printed())
    {
        let _ = writeln!(
            out,
            "| {} | `{}` | {} | {} |",
            xid.code,
            xid.name,
            to_markdown(&xid.means),
            to_markdown(&advice.first)
        );
    }
    out
}

fn write_advice(out: &mut String, advice: &Advice) {
    let codes = advice
        .codes
        .iter()
        .filter_map(|code| Some((*code, status::message(*code)?)));
    let mut titles: Vec<String> = codes
        .map(|(code, says)| format!("{code}: {}", to_markdown(says)))
        .collect();
    let mut said: Vec<String> = advice
        .says
        .iter()
        .map(|says| format!("“{}”", to_markdown(says)))
        .collect();
    if titles.is_empty() {
        titles.extend(advice.says.first().map(|says| to_markdown(says)));
        said.drain(..said.len().min(1));
    }
    if titles.is_empty() {
        titles.extend(advice.codes.iter().map(u32::to_string));
    }
    let _ = writeln!(
        out,
        "\n<a id=\"{}\"></a>\n\n## {}\n",
        advice.id.replace('/', "-"),
        titles.join("; ")
    );
    let names = advice.codes.iter().flat_map(|code| {
        [CallLibrary::Driver, CallLibrary::Runtime]
            .map(|library| status::name(library, (*code).into()))
    });
    let names: Vec<String> = names
        .flatten()
        .map(|name| format!("`{name}`"))
        .chain(said)
        .collect();
    if !names.is_empty() {
        let _ = writeln!(out, "Also {}.\n", names.join(", "));
    }
    let _ = writeln!(
        out,
        "{}\n\n**First:** {}\n",
        to_markdown(&advice.means),
        to_markdown(&advice.first)
    );
    for cause in &advice.causes {
        let source = match (&cause.scenario, &cause.survey, &cause.source) {
            (Some(scenario), ..) => format!("[measured](pitfalls/{scenario}.md)"),
            (_, Some(survey), _) => format!("[measured](surveys/{survey}.md)"),
            (.., source) => {
                let read = cause.read.as_ref().map(|read| {
                    format!(
                        " ({}, {}; {})",
                        to_markdown(&read.of),
                        to_markdown(&read.versions),
                        read.on
                    )
                });
                let (read, source) = (
                    read.unwrap_or_default(),
                    source.as_deref().unwrap_or_default(),
                );
                format!("read, not measured{read}: <{source}>")
            }
        };
        let tell = cause
            .tell
            .as_ref()
            .map(|tell| format!(" To tell: {}.", to_markdown(tell)))
            .unwrap_or_default();
        let _ = writeln!(out, "- {} ({source}).{tell}", to_markdown(&cause.cause));
    }
    if advice.doctor {
        out.push_str(
            "\nOn the machine where it happens, [`cuda-pitfalls doctor`](doctor.md) tells which cause it is.\n",
        );
    }
}
