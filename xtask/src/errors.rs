//! docs/errors.md: what each error means, what causes it and what to do first, for readers who have its message.

use std::fmt::Write as _;

use crate::TaskError;
use crate::page::to_markdown;
use crate::table::MarkdownTable;
use crate::tables::replace_part;
use cuda_pitfalls::explain::{self, Advice, ErrorCause};
use cuda_pitfalls_calls::{CallLibrary, status};

/// The page of errors, below the root of the repository.
pub const PAGE: &str = "docs/errors.md";

/// Returns the link to the advice on an error, a message or a symptom, relative to the root of the repository.
pub fn advice_link(advice: &Advice) -> String {
    format!("{PAGE}#{}", advice.id.replace('/', "-"))
}

/// Returns the page with the known errors of `explain`.
///
/// # Errors
/// Returns an error if the page has no section for it.
pub fn page(text: &str) -> Result<String, TaskError> {
    let mut errors = String::new();
    for advice in explain::all_advice() {
        write_advice(&mut errors, advice);
    }
    let mut xids = MarkdownTable::new(["Xid", "name", "meaning", "first"]);
    for (xid, advice) in explain::all_xids() {
        if xid.is_printed() {
            xids.row([
                xid.code.to_string(),
                format!("`{}`", xid.name),
                to_markdown(&xid.means),
                to_markdown(&advice.first),
            ]);
        }
    }
    let with_errors = replace_part(text, "errors", &errors)?;
    replace_part(&with_errors, "xids", &xids.to_text())
}

fn write_advice(out: &mut String, advice: &Advice) {
    let (title, other_names) = advice_names(advice);
    let _ = writeln!(
        out,
        "\n<a id=\"{}\"></a>\n\n## {title}\n",
        advice.id.replace('/', "-")
    );
    if !other_names.is_empty() {
        let _ = writeln!(out, "Also {}.\n", other_names.join(", "));
    }
    let _ = writeln!(
        out,
        "{}\n\n**First:** {}\n",
        to_markdown(&advice.means),
        to_markdown(&advice.first)
    );
    for cause in &advice.causes {
        let _ = write!(out, "- {} ({}).", to_markdown(&cause.cause), grounds(cause));
        if let Some(tell) = &cause.tell {
            let _ = write!(out, " Check: {}.", to_markdown(tell));
        }
        out.push('\n');
    }
    if let Some(releases) = advice.releases_sentence() {
        let _ = writeln!(out, "\n{releases}");
    }
    if advice.doctor {
        out.push_str(
            "\nOn the affected machine, [`cuda-pitfalls doctor`](doctor.md) determines the cause.\n",
        );
    }
}

/// Returns the title of an error, and its other names and messages.
fn advice_names(advice: &Advice) -> (String, Vec<String>) {
    let mut titles = Vec::new();
    let mut others = Vec::new();
    for code in &advice.codes {
        if let Some(says) = status::message(*code) {
            titles.push(format!("{code}: {}", to_markdown(says)));
        }
        for library in [CallLibrary::Driver, CallLibrary::Runtime] {
            if let Some(name) = status::name(library, (*code).into()) {
                others.push(format!("`{name}`"));
            }
        }
    }
    let mut said = advice.says.iter();
    if titles.is_empty() {
        titles.extend(said.next().map(|says| to_markdown(says)));
    }
    if titles.is_empty() {
        titles.extend(advice.codes.iter().map(u32::to_string));
    }
    for says in said {
        others.push(format!("“{}”", to_markdown(says)));
    }
    (titles.join("; "), others)
}

/// Returns where a cause was measured, or its source.
fn grounds(cause: &ErrorCause) -> String {
    if let Some(scenario) = &cause.scenario {
        return format!("[measured](pitfalls/{scenario}.md)");
    }
    if let Some(survey) = &cause.survey {
        return format!("[measured](surveys/{survey}.md)");
    }
    let source = cause.source.as_deref().unwrap_or_default();
    match &cause.read {
        None => format!("[source, not reproduced]({source})"),
        Some(read) => {
            let of = to_markdown(&read.of);
            let versions = to_markdown(&read.versions);
            let when = match versions.strip_suffix("that day") {
                Some(at) => format!("{at}{}", read.on),
                None => format!("{versions}, {}", read.on),
            };
            format!("[source, not reproduced]({source}): {of}, {when}")
        }
    }
}
