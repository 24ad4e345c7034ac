//! A reproducer in C: the calls in the usual style, and the checks between them.
//!
//! The program declares the functions that it calls and looks them up in the libraries, which it opens by their names.
//! So it compiles without CUDA, uses the installed libcudart, and calls exactly the functions that it names. A header
//! renames some functions from version to version (`cuCtxCreate` is `cuCtxCreate_v2` in one, `cuCtxCreate_v4` in
//! another).

use std::collections::BTreeMap;
use std::fmt::Write;

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, Output, Param, ParamKind, Returns};

use super::effect::Since;
use super::error::{Done, ExportError};
use super::helpers::{fill_lines, used_helpers};
use super::language::{Language, WIDE, c_declaration};
use super::program::{
    Argument, Doing, Number, Reproducer, Sequence, TextPiece, c_type, safe_identifier,
};
use super::writer::CaseText;

/// C types that need no declaration.
const BUILT_IN: [&str; 9] = [
    "int",
    "char",
    "void",
    "float",
    "double",
    "size_t",
    "unsigned int",
    "unsigned long long",
    "unsigned char",
];
/// Headers, each with a name that it declares and that may be used.
const INCLUDES: [(&str, &str); 11] = [
    ("dlfcn", "dlopen("),
    ("errno", "errno"),
    ("pthread", "pthread_t"),
    ("stdarg", "va_list"),
    ("stdint", "int64_t intptr_t"),
    ("stdio", "printf("),
    ("stdlib", "system("),
    ("string", "str memset("),
    ("sys/mman", "mmap("),
    ("sys/wait", "waitpid("),
    ("unistd", "usleep( fork( getpid("),
];
/// Functions that a file contains if it uses them.
const HELPERS: &str = include_str!("helpers.c");

pub(super) fn file(program: &Reproducer<'_>) -> Result<String, ExportError> {
    let mut bodies = String::new();
    let mut held = BTreeMap::new();
    for sequence in &program.cases {
        let mut case = CaseText::new(program, sequence);
        case.c_case()?;
        for (name, c_type) in case.shared {
            if held
                .insert(name.clone(), c_type.clone())
                .is_some_and(|other| other != c_type)
            {
                return Err(ExportError(format!(
                    "`{name}` has different types in the trap and the control"
                )));
            }
        }
        bodies.extend(case.functions);
        bodies.push_str(&case.text);
    }
    let body = format!("{bodies}{}", main_function(program));
    let helpers = used_helpers(HELPERS, &body, "\n");
    let mut called = program.calls();
    called.extend(
        helpers
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter_map(calls::find),
    );
    called.retain(|call| !matches!(call.library, CallLibrary::Libc | CallLibrary::Harness));
    called.sort_by_key(|call| (call.library, call.name));
    called.dedup_by_key(|call| call.name);

    let mut out = c_header(program);
    out.push_str("#define _GNU_SOURCE\n");
    for (name, uses) in INCLUDES {
        if uses
            .split(' ')
            .any(|use_of_it| helpers.contains(use_of_it) || body.contains(use_of_it))
        {
            let _ = writeln!(out, "#include <{name}.h>");
        }
    }
    out.push('\n');
    write_declarations(program, &called, &mut out);
    out.push_str("static int asked, failed;\n");
    for (name, c_type) in &held {
        let _ = writeln!(out, "static {};", c_declaration(c_type, name));
    }
    out.push_str(&helpers);
    write_kernels(program, &mut out);
    out.push_str(&body);
    Ok(out)
}

fn c_header(program: &Reproducer<'_>) -> String {
    let commands = Language::C.run_commands(&program.stem).join(" && ");
    let needs = if program
        .calls()
        .iter()
        .any(|call| call.library == CallLibrary::Runtime)
    {
        "LIBCUDART=PATH names a libcudart. "
    } else {
        ""
    };
    let lines = program
        .header_lines(&format!("{commands}; echo $?"), needs)
        .into_iter();
    let body: String = lines
        .map(|line| {
            format!(" * {}", Language::C.escape_comment(&line))
                .trim_end()
                .to_string()
                + "\n"
        })
        .collect();
    format!("/*\n{body} */\n")
}

/// Writes the types and the functions of some calls, as the headers declare them.
fn write_declarations(program: &Reproducer<'_>, called: &[&Call], out: &mut String) {
    out.push_str("/* Declarations as in cuda.h, cuda_runtime_api.h and nvml.h. */\n");
    write_types(called, out);
    let mut named: BTreeMap<&str, i64> = BTreeMap::new();
    for argument in program.arguments() {
        if let Argument::Number(Number::Named(name, value)) = argument {
            named.insert(name, *value);
        }
    }
    if !named.is_empty() {
        let all: Vec<String> = named
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let _ = writeln!(out, "enum {{ {} }};", all.join(", "));
    }
    let entries = called.iter().map(|call| function_entry(call));
    let _ = writeln!(
        out,
        "#define FUNCTIONS(F) \\\n{}",
        fill_lines(entries, 106, " \\\n")
    );
    out.push_str(
        "#define DECLARE(result, name, types) static result(*name) types;\n#define FIND(result, name, types) \\\n    if \
         (!(*(void **)&name = dlsym(RTLD_DEFAULT, #name))) return puts(\"skipped: missing \" #name), 77;\n\
         FUNCTIONS(DECLARE)\n",
    );
}

/// Writes a `typedef` for each C type, with all names that are aliases of it.
fn write_types(called: &[&Call], out: &mut String) {
    let mut names: BTreeMap<(bool, String), Vec<String>> = BTreeMap::new();
    for param in called.iter().flat_map(|call| &call.params) {
        if is_raw(param) {
            continue;
        }
        let plain = c_type(param).replace("const ", "");
        let pointee = plain.replace("*const", "");
        let base = pointee.trim_end_matches(['*', ' ']);
        if base.is_empty() || BUILT_IN.contains(&base) {
            continue;
        }
        let c_type = declared_type(base, param, plain.contains('*'));
        // Structs come last.
        let names = names
            .entry((c_type.starts_with("struct"), c_type))
            .or_default();
        if !names.iter().any(|name| name == base) {
            names.push(base.to_owned());
        }
    }
    for ((_, c_type), names) in names {
        let _ = writeln!(out, "typedef {};", declared_all(&c_type, &names));
    }
}

/// Returns the entry of a call in the list of functions: its result, its name and the types of its parameters.
fn function_entry(call: &Call) -> String {
    let mut types = Vec::new();
    for param in &call.params {
        if is_raw(param) {
            types.push("void *".to_owned());
        } else if !param.c_type.is_empty() {
            types.push(c_type(param));
        }
    }
    if types.is_empty() {
        types.push("void".to_owned());
    }
    let result = match call.returns {
        Returns::Text => "const char *",
        Returns::Status => "int",
    };
    format!("F({result}, {}, ({}))", call.name, types.join(", "))
}

/// Returns `true` if the parameter is declared as `void *`: a pointer to a struct, a UUID or a fixed value.
fn is_raw(param: &Param) -> bool {
    let is_pointer = param.c_type.contains('*');
    is_pointer
        && matches!(
            param.kind,
            ParamKind::In(_)
                | ParamKind::Out(Output::Struct(_) | Output::Uuid)
                | ParamKind::Fixed(_)
        )
}

/// Returns the type that replaces the pointee of an opaque pointer or the value of a C type.
fn declared_type(base: &str, param: &Param, is_pointer: bool) -> String {
    let c_type = match param.kind {
        _ if !is_pointer && param.c_type.contains("enum ") => "int",
        _ if WIDE.contains(&base) => "unsigned long long",
        ParamKind::Dim3 if !is_pointer => "struct { unsigned int x, y, z; }",
        ParamKind::Location if !is_pointer => "struct { int type, id; }",
        ParamKind::Block(_, bytes) | ParamKind::Out(Output::Blob(_, bytes)) => {
            return format!("struct {{ char reserved[{bytes}]; }}");
        }
        ParamKind::Out(Output::I32) | ParamKind::I32 | ParamKind::Constant(_) | ParamKind::Pid => {
            "int"
        }
        ParamKind::Out(Output::U32) | ParamKind::U32 => "unsigned int",
        ParamKind::Out(Output::U64 | Output::Varying) | ParamKind::U64 => "unsigned long long",
        _ if base == "cufftHandle" => "int",
        _ => "void *",
    };
    c_type.to_string()
}

/// Statements that open a libcudart.
const CUDART: &str = r#"    const char *cudart = getenv("LIBCUDART") ?: "libcudart.so";
    (void)(OPEN(cudart) || OPEN("libcudart.so.13") || OPEN("libcudart.so.12") || OPEN("libcudart.so.11.0"));
"#;

/// Returns the function that opens the libraries, and runs a single case, or all cases in separate processes.
fn main_function(program: &Reproducer<'_>) -> String {
    let mut out = String::from(
        "\nint main(int count, char **arguments)\n{\n    setvbuf(stdout, NULL, _IONBF, 0);\n",
    );
    out.push_str("    OPEN(\"libcuda.so.1\"), OPEN(\"libnvidia-ml.so.1\");\n");
    for (library, files) in program.libraries() {
        let tried: Vec<String> = files
            .iter()
            .map(|file| format!("OPEN({})", Language::C.string_literal(file)))
            .collect();
        match library {
            CallLibrary::Runtime => out.push_str(CUDART),
            CallLibrary::Nvml => {}
            _ => out.push_str(&format!("    (void)({});\n", tried.join(" || "))),
        }
    }
    out.push_str("    FUNCTIONS(FIND)\n    if (count > 1)\n");
    let names: Vec<String> = program
        .cases
        .iter()
        .map(|sequence| safe_identifier(&sequence.case.name, &[]))
        .collect();
    let made = match names.as_slice() {
        [trap, control] => format!("(strcmp(arguments[1], \"trap\") ? {control} : {trap})()"),
        others => format!("{}()", others.concat()),
    };
    let _ = writeln!(
        out,
        "        return {made}, failed ? 1 : asked < {} ? 77 : 0;",
        program.questions.len()
    );
    if let Some(gpus) = program.gpus_to_count() {
        let _ = writeln!(
            out,
            "    if (gpu_count() < {gpus})\n        return puts(\"skipped: it needs {gpus} GPUs\"), 77;"
        );
    }
    let seconds = program.scenario.timeout_ms.div_ceil(1000);
    for (index, sequence) in program.cases.iter().enumerate() {
        let (name, variables) = (
            Language::C.string_literal(&sequence.case.name),
            environment(sequence),
        );
        let ran = format!("run(arguments[0], {name}, {variables}, {seconds})");
        let _ = match index {
            0 => writeln!(out, "    int code = {ran};"),
            _ => writeln!(out, "    code = {ran} == 1 && code < 2 ? code : 77;"),
        };
    }
    if program.cases.len() < 2 {
        out.push_str("    code = code < 2 ? code : 77;\n");
    }
    out.push_str(
        "    printf(\"%s (exit code %d)\\n\", code == 0 ? \"Reproduced\" : code == 1 ? \"Not reproduced\" : \"Inconclusive\", code);\n    return code;\n}\n",
    );
    out
}

/// Returns the environment of a case, as arguments of `env`.
fn environment(sequence: &Sequence<'_>) -> String {
    let mut all = Vec::new();
    for (name, value) in sequence.environment() {
        let gap = if all.is_empty() { "" } else { " " };
        all.push(TextPiece::Said(format!("{gap}'{name}=")));
        // A shell parses the result.
        all.extend(value.into_iter().map(|piece| match piece {
            TextPiece::Said(text) => TextPiece::Said(text.replace('\'', "'\\''")),
            uuid @ TextPiece::Uuid(_) => uuid,
        }));
        all.push(TextPiece::Said("'".to_string()));
    }
    Language::C.text(&all)
}

fn write_kernels(program: &Reproducer<'_>, out: &mut String) {
    for (name, lines) in program.kernels_by_name() {
        let lines = fill_lines(
            lines.map(|line| Language::C.string_literal(&line)),
            112,
            "\n",
        );
        let _ = writeln!(
            out,
            "\nstatic const char kernel_{}[] =\n{lines};",
            safe_identifier(name, &[])
        );
    }
}

fn declared_all(c_type: &str, names: &[String]) -> String {
    c_declaration(
        c_type,
        &names.join(if c_type.ends_with('*') { ", *" } else { ", " }),
    )
}

impl CaseText<'_> {
    fn c_case(&mut self) -> Done {
        let (sequence, program) = (self.sequence, self.program);
        let _ = write!(
            self.text,
            "\nstatic void {}(void)\n{{\n",
            safe_identifier(&sequence.case.name, &[])
        );
        let has_threads = sequence
            .steps
            .iter()
            .any(|action| matches!(action.doing, Doing::Thread(_)));
        let mut local: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for held in &sequence.variables {
            let name = Language::C.variable(&held.name);
            self.declared.insert(name.clone(), held.c_type.clone());
            if has_threads {
                self.shared.insert(name, held.c_type.clone());
            } else {
                // All of them are pointers, integers or bytes.
                local
                    .entry(&held.c_type)
                    .or_default()
                    .push(format!("{name} = {{0}}"));
            }
        }
        for (c_type, names) in local {
            self.write_statement(&declared_all(c_type, &names), "");
        }
        let gpus = if program.is_counted_since(Since::Start) {
            program.gpus_read()
        } else {
            0
        };
        if gpus > 0 && !has_threads {
            self.write_statement(
                &format!("long long start[] = {{{}}}", program.memory_readings()),
                "",
            );
        } else if gpus > 0 {
            self.shared
                .insert(format!("start[{gpus}]"), "long long".to_string());
            let all: Vec<String> = (0..gpus)
                .map(|gpu| format!("start[{gpu}] = used({gpu})"))
                .collect();
            self.write_statement(&all.join(", "), "");
        }
        if program.needs_cost() {
            self.shared
                .insert("cost".to_string(), "long long".to_string());
            self.write_statement("cost = context_cost()", "");
        }
        self.steps(&sequence.steps)?;
        self.text.push_str("}\n");
        Ok(())
    }
}
