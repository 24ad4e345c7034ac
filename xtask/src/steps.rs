//! The steps as a page, from the tables of calls: what each call does, takes and returns.

use std::collections::BTreeMap;
use std::fmt::Write;

use cuda_pitfalls_calls::{
    self as calls, ACTOR, Call, CallLibrary, Constants, Output, Param, ParamKind,
};

use cuda_pitfalls::catalogue;

const HEAD: &str = "# All steps

Generated from the tables of calls (`src/calls/tables/`); `cargo xtask bless` writes it anew.

\"Handle of a …\" takes a name that `as` bound before. A value after `=` is what is passed when the argument is left out. `as` names the type of what can be bound. Handles appear among the values as `bound` or `NULL`, never as numbers. A stream may be `\"NULL\"`, `\"cudaStreamLegacy\"` or `\"cudaStreamPerThread\"`. Values marked \\* may differ from attempt to attempt: they can be checked, but never make two outcomes differ.
";

/// The page, in Markdown.
pub fn page() -> String {
    let mut text = HEAD.to_string();
    for library in CallLibrary::ALL {
        let rows: Vec<&Call> = calls::all()
            .filter(|call| call.library == library)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let title = if library == CallLibrary::Harness {
            "Actions of the worker (harness)"
        } else {
            library.name()
        };
        let _ = write!(
            text,
            "\n## {title}\n\n| step | what it does | arguments | values |\n| --- | --- | --- | --- |\n"
        );
        for call in rows {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                call.name,
                call.summary,
                arguments(call),
                values(call)
            );
        }
    }
    text.push_str("\n## Constants by name\n\n| argument type | names |\n| --- | --- |\n");
    for constants in used_constants() {
        let names: Vec<String> = constants
            .values
            .iter()
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let _ = writeln!(text, "| {} | {} |", constants.name, names.join(", "));
    }
    text.push_str("\n## Kernel files, for `ptx`\n\n| file | what it is for | kernels |\n| --- | --- | --- |\n");
    for name in catalogue::kernel_names() {
        let source = catalogue::kernel(name).unwrap_or_default();
        let comment = source.lines().take_while(|line| line.starts_with("//"));
        let comment: Vec<&str> = comment
            .map(|line| line.trim_start_matches('/').trim())
            .collect();
        let entries = source
            .split(".entry ")
            .skip(1)
            .filter_map(|rest| rest.split('(').next());
        let entries: Vec<String> = entries.map(|entry| format!("`{}`", entry.trim())).collect();
        let _ = writeln!(
            text,
            "| `{name}` | {} | {} |",
            comment.join(" "),
            entries.join(", ")
        );
    }
    text
}

/// Every group of constants that an argument takes, once.
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
