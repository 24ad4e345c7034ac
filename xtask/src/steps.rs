//! The steps as a page, from the tables of calls: what each call does, takes and returns.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{
    self as calls, ACTOR, Call, CallLibrary, Constants, Output, Param, ParamKind,
};

use crate::TaskError;
use crate::table::MarkdownTable;
use crate::tables::replace_part;
use cuda_pitfalls::catalogue;

/// The page of calls, below the root of the repository.
pub const PAGE: &str = "scenarios/steps.md";

/// Returns the page with today's calls, constants and kernel files.
///
/// # Errors
/// Returns an error if the page has no section for them.
pub fn page(text: &str) -> Result<String, TaskError> {
    let mut made = String::new();
    for library in CallLibrary::ALL {
        let mut table = MarkdownTable::new(["step", "what it does", "arguments", "values"]);
        for call in calls::all() {
            if call.library == library {
                let name = format!("`{}`", call.name);
                let summary = call.summary.to_owned();
                table.row([name, summary, arguments(call), values(call)]);
            }
        }
        let title = if library == CallLibrary::Harness {
            "Actions of the worker (harness)"
        } else {
            library.name()
        };
        if table.len() > 0 {
            made += &format!("\n## {title}\n{}", table.to_text());
        }
    }
    let mut constants = MarkdownTable::new(["argument type", "names"]);
    for used in used_constants() {
        let names: Vec<String> = used
            .values
            .iter()
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        constants.row([used.name.to_owned(), names.join(", ")]);
    }
    made += &format!("\n## Constants by name\n{}", constants.to_text());
    made += &format!("\n## Kernel files, for `ptx`\n{}", kernels_table());
    replace_part(text, "steps", &made)
}

/// Returns the kernel files: their first comment, and their kernels.
fn kernels_table() -> String {
    let mut table = MarkdownTable::new(["file", "what it is for", "kernels"]);
    for name in catalogue::kernel_names() {
        let source = catalogue::kernel(name).unwrap_or_default();
        let mut comment = Vec::new();
        for line in source.lines().take_while(|line| line.starts_with("//")) {
            comment.push(line.trim_start_matches('/').trim());
        }
        let mut kernels = Vec::new();
        for entry in source.split(".entry ").skip(1) {
            let (kernel, _) = entry.split_once('(').unwrap_or((entry, ""));
            kernels.push(format!("`{}`", kernel.trim()));
        }
        table.row([format!("`{name}`"), comment.join(" "), kernels.join(", ")]);
    }
    table.to_text()
}

/// Returns every group of constants that an argument takes, once.
fn used_constants() -> impl Iterator<Item = &'static Constants> {
    let params = calls::all().flat_map(|call| &call.params);
    let used = params.filter_map(|param| match param.kind {
        ParamKind::Constant(constants) => Some((constants.name, constants)),
        _ => None,
    });
    used.collect::<BTreeMap<_, _>>().into_values()
}

fn arguments(call: &Call) -> String {
    let inputs = call
        .input_params()
        .map(|param| format!("`{}`: {}", param.name, type_words(param)));
    let bound = call.bound_handle().map(|handle| {
        format!(
            "`as`: {handle}{}",
            if handle == ACTOR { " (required)" } else { "" }
        )
    });
    inputs.chain(bound).collect::<Vec<_>>().join(", ")
}

fn type_words(param: &Param) -> String {
    let kind = match param.kind {
        ParamKind::I32 | ParamKind::U32 | ParamKind::U64 | ParamKind::Dim3 => "integer".to_string(),
        ParamKind::Bytes => "bytes".to_string(),
        ParamKind::Text => "text".to_string(),
        ParamKind::Constant(constants) => constants.name.to_string(),
        ParamKind::Handle(kind) => format!("handle of a {kind}"),
        ParamKind::FatBinary(kind) => format!("handle of an {kind}"),
        ParamKind::Ptx => "kernel file".to_string(),
        ParamKind::Arguments => "list of integers and handles".to_string(),
        ParamKind::Actor => ACTOR.to_string(),
        ParamKind::Pid => "process".to_string(),
        ParamKind::Location => "integer or `\"host\"`".to_string(),
        ParamKind::In(template) if template.width == 8 => "bytes, or `UINT64_MAX`".to_string(),
        ParamKind::In(_) => "integer".to_string(),
        ParamKind::Block(kind, _) => format!("handle of an {kind}, of any process"),
        ParamKind::Fixed(_) | ParamKind::Out(_) => String::new(),
    };
    match (param.default, param.kind) {
        (None, _) => kind,
        (Some(0), ParamKind::Handle(_)) => format!("{kind} = NULL"),
        (Some(0), ParamKind::Arguments) => format!("{kind} = none"),
        (Some(value), _) => format!("{kind} = {value}"),
    }
}

fn named(name: &str, stable: bool) -> String {
    format!("`{name}`{}", if stable { "" } else { " \\*" })
}

fn values(call: &Call) -> String {
    let values = call.outputs().flat_map(|(name, output)| match output {
        Output::Struct(layout) => layout
            .fields
            .iter()
            .map(|field| named(field.name, field.stable))
            .collect(),
        _ => vec![named(
            name,
            !matches!(output, Output::Varying | Output::F32),
        )],
    });
    values.collect::<Vec<_>>().join(", ")
}
