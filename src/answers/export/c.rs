//! A reproducer in C: the calls as a person would write them, and what runs and measures them.
//!
//! It declares what it calls instead of including CUDA's headers. So it compiles where there are only
//! the libraries, and calls exactly the functions that it names: a header renames some from version to
//! version (`cuCtxCreate` is `cuCtxCreate_v2` in one, `cuCtxCreate_v4` in another).

use std::collections::BTreeMap;
use std::fmt::Write;

use cuda_pitfalls_calls::{
    self as calls, Call, CallLibrary, FieldType, Output, Param, ParamKind, RETURNED_TEXT, Returns,
};

use super::Refusal;
use super::program::{Action, Argument, Doing, EffectQuestion, Number, Reproducer, Sequence, plain_type, questions};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Operand;
use cuda_pitfalls_core::text::escape::visible;

const HELPERS: &str = include_str!("helpers.h");
const RUNTIME: &str = include_str!("runtime.c");

/// Functions that the runtime calls.
const MEASURING: [&str; 14] = [
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuDeviceGetCount",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRetain",
    "cuGetErrorName",
    "cuInit",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetUUID",
    "nvmlInit_v2",
    "cudaGetErrorName",
];

/// C types of handles that are integers of 64 bits.
const WIDE: [&str; 9] = [
    "CUdeviceptr",
    "CUmemGenericAllocationHandle",
    "CUgraphConditionalHandle",
    "cudaGraphConditionalHandle",
    "CUtexObject",
    "CUsurfObject",
    "cudaTextureObject_t",
    "cudaSurfaceObject_t",
    "cuuint64_t",
];
/// C types that need no declaration.
const BUILT_IN: [&str; 9] =
    ["int", "char", "void", "float", "double", "size_t", "unsigned int", "unsigned long long", "unsigned char"];
/// Names that a variable must not take.
const TAKEN: [&str; 43] = [
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "int", "long", "register", "return", "short", "signed", "sizeof", "static", "struct",
    "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "inline", "begin", "end", "returned",
    "value", "block", "filled", "kill", "fork", "free", "environ",
];
/// The same for the names of threads and processes.
const TAKEN_UPPER: [&str; 7] = ["MAIN", "RUNTIME", "DRIVER", "NVML", "LIBC", "OTHER", "NULL"];

/// The whole file.
pub(super) fn file(program: &Reproducer<'_>) -> Result<String, Refusal> {
    if program.is_of_lines() {
        return Err(Refusal("its steps are lines of Python; write it `--as python`".to_string()));
    }
    let mut out = header(program);
    declarations(program, &mut out);
    out.push_str(HELPERS);
    kernels(program, &mut out);
    for sequence in &program.cases {
        case(sequence, &mut out);
    }
    orders(program, &mut out);
    effect(program, &mut out)?;
    let question = literal(&program.scenario.question);
    let _ = write!(
        out,
        "\n#define QUESTION {question}\n#define NEEDED_GPUS {}\n#define STEP_TIMEOUT_MS {}\n#define MEASURES_CONTEXT {}\n",
        program.scenario.needs.gpus,
        program.scenario.step_timeout_ms,
        i32::from(program.measures_context()),
    );
    out.push_str(RUNTIME);
    Ok(out)
}

/// Text for a comment.
pub(super) fn comment(text: &str) -> String {
    visible(text).replace("*/", "* /").replace("/*", "/ *")
}

/// A C string.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            // Octal ends after three digits; hexadecimal would take what follows.
            0..32 | 127.. => {
                let _ = write!(out, "\\{byte:03o}");
            }
            // Two in a row may begin a trigraph.
            b'?' => out.push_str("\\?"),
            _ => out.push(char::from(byte)),
        }
    }
    out.push('"');
    out
}

fn header(program: &Reproducer<'_>) -> String {
    let scenario = program.scenario;
    let mut lines: Vec<String> = Vec::new();
    lines.extend(wrapped(&scenario.question));
    lines.push(String::new());
    for sequence in &program.cases {
        lines.extend(wrapped(&format!("{}: {}", sequence.case.name, sequence.case.does)));
    }
    if !scenario.answer.is_empty() {
        lines.push(String::new());
        lines.extend(wrapped(&format!("Measured before: {}", scenario.answer)));
    }
    for hazard in &scenario.hazards {
        lines.extend(wrapped(&format!("Careful: {}", super::program::warning(*hazard))));
    }
    lines.push(String::new());
    let stem = program.stem_or("reproducer");
    lines.push(compile_line(program, &format!("{stem}.c"), stem));
    lines.push("./reproducer; echo $?".to_string());
    lines.push(String::new());
    lines.extend(wrapped(
        "Exit code: 0 if the effect shows in the trap and not in the control, 1 if it does not show in the trap, \
         2 if it cannot be told. Needs Linux and an idle GPU; -L names the folder of libcudart where the linker \
         does not find it.",
    ));
    lines.extend(wrapped(
        "What is called is declared here. No CUDA header is included, so none is needed, and none can rename a \
         function.",
    ));
    lines.extend(wrapped(&format!(
        "Written by cuda-pitfalls {} from {}.",
        env!("CARGO_PKG_VERSION"),
        program.instance.name
    )));
    let body: String = lines.iter().map(|line| format!(" * {}", comment(line)).trim_end().to_string() + "\n").collect();
    format!("/*\n{body} */\n")
}

pub(super) fn wrapped(text: &str) -> Vec<String> {
    cuda_pitfalls_core::text::lines::words(text, 92)
}

/// How the file is compiled.
pub(super) fn compile_line(program: &Reproducer<'_>, file: &str, stem: &str) -> String {
    format!("cc -o {stem} {file} {} -lpthread -ldl", libraries(program).join(" "))
}

fn libraries(program: &Reproducer<'_>) -> Vec<&'static str> {
    let mut all: Vec<&str> = Vec::new();
    for library in program.calls().iter().map(|call| call.library) {
        let flag = match library {
            CallLibrary::Runtime => "-lcudart",
            CallLibrary::Nvrtc => "-lnvrtc",
            CallLibrary::Cublas => "-lcublas",
            CallLibrary::Cufft => "-lcufft",
            CallLibrary::Nccl => "-lnccl",
            CallLibrary::Driver | CallLibrary::Nvml | CallLibrary::Libc | CallLibrary::Harness => continue,
        };
        if !all.contains(&flag) {
            all.push(flag);
        }
    }
    all.extend(["-lcuda", "-lnvidia-ml"]);
    all
}

/// What stands for the pointee of an opaque pointer or the value of a C type.
fn declared_type(base: &str, param: &Param, is_pointer: bool) -> String {
    let integer = |bits: &str| format!("typedef {bits} {base};");
    match param.kind {
        _ if !is_pointer && param.c_type.contains("enum ") => integer("int"),
        _ if WIDE.contains(&base) => integer("unsigned long long"),
        ParamKind::Dim3 if !is_pointer => "typedef struct { unsigned int x, y, z; } dim3;".to_string(),
        ParamKind::Location if !is_pointer => format!("typedef struct {{ int type, id; }} {base};"),
        ParamKind::Block(_, bytes) | ParamKind::Out(Output::Blob(_, bytes)) => {
            format!("typedef struct {{ char reserved[{bytes}]; }} {base};")
        }
        ParamKind::Out(Output::Uuid) => format!("typedef struct {{ char bytes[16]; }} {base};"),
        ParamKind::In(_) | ParamKind::Out(Output::Struct(_)) if is_pointer => integer("struct opaque"),
        ParamKind::Out(Output::I32) | ParamKind::I32 | ParamKind::Constant(_) | ParamKind::Pid => integer("int"),
        ParamKind::Out(Output::U32) | ParamKind::U32 => integer("unsigned int"),
        ParamKind::Out(Output::U64 | Output::Varying) | ParamKind::U64 => integer("unsigned long long"),
        _ if base == "cufftHandle" => integer("int"),
        ParamKind::Fixed(_) if is_pointer => integer("struct opaque"),
        _ => integer("void *").replace("* ", "*"),
    }
}

fn declarations(program: &Reproducer<'_>, out: &mut String) {
    let mut functions = program.calls();
    functions.retain(|call| call.library != CallLibrary::Libc);
    let has_runtime = functions.iter().any(|call| call.library == CallLibrary::Runtime);
    functions.extend(MEASURING.iter().filter_map(|name| calls::find(name)));
    functions.retain(|call| has_runtime || call.library != CallLibrary::Runtime);
    functions.sort_by_key(|call| (call.library, call.name));
    functions.dedup_by_key(|call| call.name);
    out.push_str(
        "#define _GNU_SOURCE\n#include <ctype.h>\n#include <dlfcn.h>\n#include <errno.h>\n#include <pthread.h>\n\
         #include <signal.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         #include <strings.h>\n#include <sys/mman.h>\n#include <sys/prctl.h>\n#include <sys/resource.h>\n\
         #include <sys/wait.h>\n#include <time.h>\n#include <unistd.h>\n\n/* As cuda.h, cuda_runtime_api.h and nvml.h \
         declare them; an enum is an int to C. */\nstruct opaque;\n",
    );
    prototypes(&functions, out);
    out.push_str("extern nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t, void *);\n");
    if has_runtime {
        out.push_str("#define WITH_RUNTIME\n");
    }
    enumerators(program, out);
    let _ = write!(out, "\n#define CASES {}\n\n", program.cases.len());
}

/// The types and the functions of some calls, as the headers declare them.
pub(super) fn prototypes(functions: &[&Call], out: &mut String) {
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    for (call, param) in functions.iter().flat_map(|call| call.params.iter().map(move |param| (call, param))) {
        let plain = plain_type(param.c_type).replace("const ", "");
        let base = plain.trim_end_matches(['*', ' ']).replace("*const", "");
        let base = base.trim_end_matches(['*', ' ']);
        if base.is_empty() || BUILT_IN.contains(&base) || base == result_type(call.library) {
            continue;
        }
        types.entry(base.to_string()).or_insert_with(|| declared_type(base, param, plain.contains('*')));
    }
    let mut results: Vec<CallLibrary> = functions.iter().map(|call| call.library).collect();
    results.dedup();
    for library in results {
        let _ = writeln!(out, "typedef int {};", result_type(library));
    }
    for declared in types.values() {
        let _ = writeln!(out, "{declared}");
    }
    for call in functions {
        let types: Vec<String> =
            call.params.iter().filter(|param| !param.c_type.is_empty()).map(|param| plain_type(param.c_type)).collect();
        let types = if types.is_empty() { "void".to_string() } else { types.join(", ") };
        let result = if call.returns == Returns::Text { "const char *" } else { result_type(call.library) };
        let _ = writeln!(out, "extern {result} {}({types});", call.name);
    }
}

/// The named constants that are passed.
pub(super) fn enumerators(program: &Reproducer<'_>, out: &mut String) {
    let named: BTreeMap<&str, i64> =
        program.actions().flat_map(constants).filter(|(name, _)| !name.starts_with("SIG")).collect();
    if !named.is_empty() {
        let all: Vec<String> = named.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let _ = writeln!(out, "enum {{ {} }};", all.join(", "));
    }
}

fn constants(action: &Action<'_>) -> Vec<(&'static str, i64)> {
    let named = |argument: &Argument| match argument {
        Argument::Number(Number::Named(name, value)) => Some((*name, *value)),
        _ => None,
    };
    match &action.doing {
        Doing::Call { arguments, .. } => arguments.iter().filter_map(named).collect(),
        _ => Vec::new(),
    }
}

fn result_type(library: CallLibrary) -> &'static str {
    match library {
        CallLibrary::Driver => "CUresult",
        CallLibrary::Runtime => "cudaError_t",
        CallLibrary::Nvml => "nvmlReturn_t",
        CallLibrary::Nvrtc => "nvrtcResult",
        CallLibrary::Cublas => "cublasStatus_t",
        CallLibrary::Cufft => "cufftResult",
        CallLibrary::Nccl => "ncclResult_t",
        CallLibrary::Libc | CallLibrary::Harness => "int",
    }
}

/// What the runtime calls a library.
pub(super) fn short(library: CallLibrary) -> &'static str {
    match library {
        CallLibrary::Driver => "DRIVER",
        CallLibrary::Runtime => "RUNTIME",
        CallLibrary::Nvml => "NVML",
        CallLibrary::Libc | CallLibrary::Harness => "LIBC",
        CallLibrary::Nvrtc | CallLibrary::Cublas | CallLibrary::Cufft | CallLibrary::Nccl => "OTHER",
    }
}

pub(super) fn kernels(program: &Reproducer<'_>, out: &mut String) {
    let mut names: Vec<&String> = Vec::new();
    for action in program.actions() {
        if let Doing::Call { arguments, .. } = &action.doing {
            names.extend(arguments.iter().filter_map(|argument| match argument {
                Argument::Kernel(name) => Some(name),
                _ => None,
            }));
        }
    }
    names.sort();
    names.dedup();
    for name in names {
        let _ = writeln!(out, "\nstatic const char kernel_{}[] =", identifier(name, &[]));
        let text = catalogue::kernel(name).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(|line| format!("    {}", literal(&format!("{line}\n")))).collect();
        let _ = writeln!(out, "{};", lines.join("\n"));
    }
}

/// A C identifier.
pub(super) fn identifier(name: &str, taken: &[&str]) -> String {
    let mut text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if text.starts_with(|first: char| first.is_ascii_digit()) || taken.contains(&text.as_str()) {
        text.push('_');
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.insert(0, '_');
    }
    text
}

pub(super) fn variable(name: &str) -> String {
    identifier(name, &TAKEN)
}

fn actor(sequence: &Sequence<'_>, index: usize) -> String {
    match sequence.actors.get(index) {
        Some(name) if index > 0 => identifier(&name.to_ascii_uppercase(), &TAKEN_UPPER),
        _ => "MAIN".to_string(),
    }
}

/// What holds a thread or the ID of a process.
fn holder(sequence: &Sequence<'_>, index: usize, what: &str) -> String {
    let name = sequence.actors.get(index).map(String::as_str).unwrap_or_default();
    format!("{}_{what}", identifier(name, &[]))
}

fn case(sequence: &Sequence<'_>, out: &mut String) {
    let name = identifier(&sequence.case.name, &[]);
    let _ = write!(out, "\n/* {}: {} */\n", sequence.case.name, comment(&sequence.case.does));
    let _ = write!(out, "static void case_{name}(void)\n{{\n");
    if sequence.actors.len() > 1 {
        let all: Vec<String> = (1..sequence.actors.len()).map(|at| format!("{} = {at}", actor(sequence, at))).collect();
        let _ = writeln!(out, "    enum {{ {} }}; /* each makes the steps that name it */", all.join(", "));
    }
    for held in &sequence.variables {
        let _ = writeln!(out, "    static {};", declared(&held.c_type, &variable(&held.name)));
    }
    for action in &sequence.steps {
        match &action.doing {
            Doing::StartThread { actor } => {
                let _ = writeln!(out, "    static pthread_t {};", holder(sequence, *actor, "thread"));
            }
            Doing::Fork { actor } | Doing::Spawn { actor } => {
                let _ = writeln!(out, "    static pid_t {};", holder(sequence, *actor, "pid"));
            }
            _ => {}
        }
    }
    for (index, action) in sequence.steps.iter().enumerate() {
        let called = action.call().map_or(action.step.call.as_str(), |call| call.name);
        if action.step.label != called {
            let _ = write!(out, "\n    /* {} */", comment(&action.step.label));
        }
        let _ = writeln!(out, "\n    if (begin({}, {index})) {{", actor(sequence, action.actor));
        for line in step(sequence, action) {
            let _ = writeln!(out, "        {line}");
        }
        if !matches!(action.doing, Doing::Fork { .. }) {
            out.push_str("        end();\n");
        }
        out.push_str("    }\n");
    }
    out.push_str("}\n");
}

pub(super) fn declared(c_type: &str, name: &str) -> String {
    if c_type.ends_with('*') { format!("{c_type}{name}") } else { format!("{c_type} {name}") }
}

fn text(text: &str) -> String {
    if text.contains("${") { format!("filled({})", literal(text)) } else { literal(text) }
}

pub(super) fn step(sequence: &Sequence<'_>, action: &Action<'_>) -> Vec<String> {
    match &action.doing {
        Doing::Call { call, arguments } => checked(call, called(sequence, action, call, arguments)),
        Doing::Line { .. } => Vec::new(),
        Doing::Mark => vec!["/* no call: memory and contexts are read */".to_string()],
        Doing::Environ { name, value } => vec![format!("set_environ({}, {});", literal(name), text(value))],
        Doing::Getenv { name } => vec![
            format!("const char *text = getenv({});", literal(name)),
            "if (text)".to_string(),
            "    value_text(\"value\", text);".to_string(),
        ],
        Doing::Getpid => vec!["value(\"pid\", getpid());".to_string()],
        Doing::Sleep { milliseconds } => vec![format!("usleep({milliseconds} * 1000);")],
        Doing::StartThread { actor: who } => {
            vec![format!("start_thread(&{}, {});", holder(sequence, *who, "thread"), actor(sequence, *who))]
        }
        Doing::Join { actor: who } => vec![
            format!("let_go({});", actor(sequence, *who)),
            format!("pthread_join({}, NULL);", holder(sequence, *who, "thread")),
        ],
        Doing::Fork { actor: who } => fork(&holder(sequence, *who, "pid"), &actor(sequence, *who)),
        Doing::Spawn { actor: who } => {
            let pid = holder(sequence, *who, "pid");
            vec![format!("{pid} = start_process({});", actor(sequence, *who)), format!("value(\"pid\", {pid});")]
        }
        Doing::Wait { actor: who } => vec![
            "int status = 0;".to_string(),
            format!("let_go({});", actor(sequence, *who)),
            format!("waitpid({}, &status, 0);", holder(sequence, *who, "pid")),
            "value(\"code\", WIFEXITED(status) ? WEXITSTATUS(status) : -1);".to_string(),
            "value(\"signal\", WIFSIGNALED(status) ? WTERMSIG(status) : 0);".to_string(),
        ],
        Doing::Kill { actor: who, signal } => {
            let pid = holder(sequence, *who, "pid");
            let mut lines =
                vec![format!("if (kill({pid}, {}) != 0)", number(signal)), "    returned_errno(-1);".to_string()];
            // A killed process ends some time after the call. What follows asks about one that has ended.
            if signal.is_sigkill() {
                lines.extend(["else".to_string(), format!("    wait_for_end({pid});")]);
            }
            lines
        }
        Doing::Memset { variable: name, value, bytes } => {
            vec![format!("memset((void *)(uintptr_t){}, {value}, {});", variable(name), size(*bytes))]
        }
        Doing::Open { file } => {
            vec![format!("if (!dlopen({}, RTLD_NOW))", literal(file)), "    returned(LIBC, ENOENT);".to_string()]
        }
        Doing::MaxRss => vec![
            "struct rusage usage;".to_string(),
            "if (getrusage(RUSAGE_SELF, &usage) == 0)".to_string(),
            "    value(\"max_rss_bytes\", (long long)usage.ru_maxrss * 1024);".to_string(),
        ],
    }
}

fn fork(pid: &str, child: &str) -> Vec<String> {
    vec![
        format!("{pid} = fork();"),
        format!("if ({pid} == 0) {{"),
        format!("    become({child});"),
        "} else {".to_string(),
        format!("    value(\"pid\", {pid});"),
        "    end();".to_string(),
        "}".to_string(),
    ]
}

fn number(number: &Number) -> String {
    match number {
        Number::Int(value) => value.to_string(),
        Number::Named(name, _) => (*name).to_string(),
        Number::Gpus => "gpu_count()".to_string(),
    }
}

/// A number of bytes in the largest unit that divides it.
fn size(bytes: i64) -> String {
    for (shift, word) in [(30, "(size_t)"), (20, ""), (10, "")] {
        let whole = bytes >> shift;
        if bytes > 0 && whole << shift == bytes && (shift == 30 || whole < 2048) {
            return format!("{word}{whole} << {shift}");
        }
    }
    bytes.to_string()
}

/// A call as it is written.
pub(super) struct CallText {
    /// Declarations that it needs.
    pub(super) before: Vec<String>,
    /// The call itself.
    pub(super) made: String,
    /// Lines that print what it wrote.
    pub(super) told: Vec<String>,
}

/// The call, with the declarations before it and what is told after it.
pub(super) fn called(sequence: &Sequence<'_>, action: &Action<'_>, call: &Call, arguments: &[Argument]) -> CallText {
    let (mut before, mut passed, mut told) = (Vec::new(), Vec::new(), Vec::new());
    for (param, argument) in call.params.iter().zip(arguments) {
        if param.c_type.is_empty() {
            continue;
        }
        let c_type = plain_type(param.c_type);
        let is_pointer = c_type.contains('*');
        passed.push(match argument {
            Argument::Number(Number::Int(0)) if is_pointer => "NULL".to_string(),
            Argument::Number(value) if is_pointer => format!("({c_type})(uintptr_t){}", number(value)),
            Argument::Number(Number::Int(value)) if matches!(param.kind, ParamKind::Bytes) => size(*value),
            Argument::Number(value) => number(value),
            Argument::Text(of) => text(of),
            Argument::Variable(name) => {
                let own = sequence.variables.iter().find(|held| held.name == *name).map(|held| held.c_type.as_str());
                let plain = c_type.replace("const ", "");
                if own == Some(plain.as_str()) || own == Some(c_type.as_str()) {
                    variable(name)
                } else {
                    format!("({plain})(uintptr_t){}", variable(name))
                }
            }
            Argument::Process(who) => holder(sequence, *who, "pid"),
            Argument::Handle(0) if is_pointer || !WIDE.contains(&c_type.as_str()) => "NULL".to_string(),
            Argument::Handle(value) => format!("({})(uintptr_t){value}", c_type.replace("const ", "")),
            Argument::Kernel(name) => format!("kernel_{}", identifier(name, &[])),
            Argument::List(values) => {
                let each = |value: &Argument| match value {
                    Argument::Variable(name) => format!("&{}", variable(name)),
                    Argument::Number(value) => format!("&(uint64_t){{{}}}", number(value)),
                    Argument::Handle(value) => format!("&(uint64_t){{{value}}}"),
                    _ => "NULL".to_string(),
                };
                let all: Vec<String> = values.iter().map(each).collect();
                before.push(format!("void *{}[] = {{{}}};", param.name, all.join(", ")));
                param.name.to_string()
            }
            Argument::Dim3(x, z) => format!("(dim3){{{x}, 1, {z}}}"),
            Argument::Location { host: true, .. } => format!("({c_type}){{2, 0}}"),
            Argument::Location { device, .. } => format!("({c_type}){{1, {}}}", number(device)),
            Argument::Struct { template, given } => structure(local(param.name), template, given, &mut before),
            Argument::Block(name) => format!("*({c_type} *)block({})", block(sequence, name)),
            Argument::Out(output) => out(sequence, action, param, &c_type, *output, &mut before, &mut told),
            Argument::Rest => continue,
        });
    }
    CallText { before, made: format!("{}({})", call.name, passed.join(", ")), told }
}

/// A struct that is passed, with its declaration and members.
fn structure(name: String, template: &calls::InputStruct, given: &Number, before: &mut Vec<String>) -> String {
    before.push(format!("uint64_t {name}[{}] = {{0}}; /* {} */", template.size.div_ceil(8), template.name));
    for word in &template.preset {
        before.push(format!("put_word({name}, {}, 4, {}); /* {} */", word.offset, word.value, comment(word.member)));
    }
    let (at, width) = (template.given, template.width);
    before.push(format!(
        "put_word({name}, {at}, {width}, (unsigned long long){}); /* {} */",
        number(given),
        comment(template.member)
    ));
    format!("(void *){name}")
}

/// The lines before a call, the call with the check of its status, and what is told after it.
fn checked(call: &Call, written: CallText) -> Vec<String> {
    let CallText { before: mut lines, made, told } = written;
    if call.returns == Returns::Text {
        lines.push(format!("value_text({}, {made});", literal(RETURNED_TEXT)));
        return lines;
    }
    let whole = match call.library {
        CallLibrary::Libc => format!("returned_errno({made})"),
        library => format!("returned({}, {made})", short(library)),
    };
    match told.as_slice() {
        [] => lines.push(format!("{whole};")),
        [one] => lines.extend([format!("if ({whole})"), format!("    {one}")]),
        all => {
            lines.push(format!("if ({whole}) {{"));
            lines.extend(all.iter().map(|line| format!("    {line}")));
            lines.push("}".to_string());
        }
    }
    lines
}

/// The name of a variable of a step.
fn local(name: &str) -> String {
    identifier(name, &TAKEN) + if matches!(name, "text" | "status" | "usage" | "time" | "index") { "_" } else { "" }
}

fn block(sequence: &Sequence<'_>, name: &str) -> usize {
    sequence.blocks.iter().position(|block| block == name).unwrap_or(0)
}

/// What is passed for what the callee writes; its declaration, and how it is told.
fn out(
    sequence: &Sequence<'_>,
    action: &Action<'_>,
    param: &Param,
    c_type: &str,
    output: Output,
    before: &mut Vec<String>,
    told: &mut Vec<String>,
) -> String {
    let name = local(param.name);
    let key = literal(param.name);
    let address = |own: &str| {
        if c_type == format!("{own} *") || c_type == format!("{own}*") {
            format!("&{name}")
        } else {
            format!("(void *)&{name}")
        }
    };
    let simple = |own: &str, before: &mut Vec<String>, told: &mut Vec<String>| {
        before.push(format!("{own} {name} = 0;"));
        told.push(format!("value({key}, (long long){name});"));
        address(own)
    };
    match output {
        Output::I32 => simple("int", before, told),
        Output::U32 => simple("unsigned int", before, told),
        Output::F32 => simple("float", before, told),
        Output::U64 | Output::Varying if c_type == "size_t *" => simple("size_t", before, told),
        Output::Varying if c_type == "int *" => simple("int", before, told),
        Output::U64 | Output::Varying => simple("unsigned long long", before, told),
        Output::Word(_) if action.step.bind.is_none() => simple("unsigned long long", before, told),
        Output::Uuid => {
            before.push(format!("unsigned char {name}[16] = {{0}};"));
            told.push(format!("value_uuid({key}, {name});"));
            format!("(void *){name}")
        }
        Output::Text(bytes) => {
            before.push(format!("char {name}[{bytes}] = \"\";"));
            told.push(format!("value_text({key}, {name});"));
            name
        }
        Output::Handle(_) | Output::Word(_) => match &action.step.bind {
            Some(bound) => bound_out(sequence, &key, c_type, bound, told),
            None => {
                before.push(format!("uint64_t {name} = 0;"));
                told.push(format!("value_bound({key}, {name});"));
                format!("(void *)&{name}")
            }
        },
        Output::Blob(_, bytes) => match &action.step.bind {
            Some(bound) => format!("(void *)block({})", block(sequence, bound)),
            None => {
                before.push(format!("unsigned char {name}[{bytes}];"));
                format!("(void *){name}")
            }
        },
        Output::Struct(layout) => structure_out(name, layout, before, told),
    }
}

/// The address of a variable of the case that the callee writes, and how it is told.
fn bound_out(sequence: &Sequence<'_>, key: &str, c_type: &str, bound: &str, told: &mut Vec<String>) -> String {
    let held = sequence.variables.iter().find(|held| held.name == bound);
    let own = held.map(|held| held.c_type.clone()).unwrap_or_default();
    let bound = variable(bound);
    told.push(format!("value_bound({key}, (uint64_t)(uintptr_t){bound});"));
    let same = c_type.replace(' ', "") == format!("{own}*").replace(' ', "");
    if same { format!("&{bound}") } else { format!("(void *)&{bound}") }
}

/// Room for a struct that the callee writes, and how its members are told.
fn structure_out(name: String, layout: &calls::Layout, before: &mut Vec<String>, told: &mut Vec<String>) -> String {
    let words = layout.size.div_ceil(8);
    before.push(format!("uint64_t {name}[{words}] = {{0}}; /* room for every version of {} */", layout.name));
    for word in &layout.preset {
        before.push(format!("put_word({name}, {}, 4, {:#x}); /* {} */", word.offset, word.value, comment(word.member)));
    }
    for field in &layout.fields {
        let key = literal(field.name);
        told.push(match field.read {
            FieldType::I32 => format!("value({key}, word_at({name}, {}, 4));", field.offset),
            FieldType::U64 => format!("value({key}, word_at({name}, {}, 8));", field.offset),
            FieldType::Text(_) => format!("value_text({key}, (char *){name} + {});", field.offset),
        });
    }
    format!("(void *){name}")
}

fn orders(program: &Reproducer<'_>, out: &mut String) {
    for sequence in &program.cases {
        let name = identifier(&sequence.case.name, &[]);
        let labels: Vec<String> = sequence.steps.iter().map(|action| literal(&action.step.label)).collect();
        let actors: Vec<String> = sequence.steps.iter().map(|action| action.actor.to_string()).collect();
        let _ = write!(out, "\nstatic const char *const labels_{name}[] = {{{}}};\n", labels.join(", "));
        let _ = writeln!(out, "static const int actors_{name}[] = {{{}}};", actors.join(", "));
    }
    out.push_str("\nstatic const struct order orders[CASES] = {\n");
    for sequence in &program.cases {
        let name = identifier(&sequence.case.name, &[]);
        let masked = sequence.masked().map_or("-1".to_string(), |count| count.to_string());
        let environment: String =
            sequence.case.env.iter().map(|(name, value)| format!("{}, {}, ", literal(name), literal(value))).collect();
        let _ = writeln!(
            out,
            "    {{{}, {}, {masked}, {{{environment}NULL}}, {}, {}, labels_{name}, actors_{name}, case_{name}}},",
            literal(&sequence.case.name),
            literal(&sequence.case.does),
            i32::from(sequence.case.probes),
            sequence.steps.len(),
        );
    }
    out.push_str("};\n");
}

fn effect(program: &Reproducer<'_>, out: &mut String) -> Result<(), Refusal> {
    out.push_str(
        "\n/* Whether the effect shows in a case. */\nstatic int effect(const struct run *run)\n{\n    int all = 1;\n",
    );
    for question in questions(&program.instance.effect)? {
        ask(&question, out)?;
    }
    out.push_str("    return all;\n}\n");
    Ok(())
}

/// The library and the code of a status.
pub(super) fn status(name: &str) -> Option<(CallLibrary, u32)> {
    CallLibrary::ALL.into_iter().find_map(|library| {
        let known = calls::status::table(library).iter().find(|(_, known)| known.to_str() == Ok(name));
        known.map(|(code, _)| (library, *code))
    })
}

fn ask(question: &EffectQuestion<'_>, out: &mut String) -> Result<(), Refusal> {
    let for_each = |gpu: Option<u32>, named: &[u32], ask: &dyn Fn(&str) -> String| match gpu {
        Some(gpu) => format!("    all = both(all, {});\n", ask(&gpu.to_string())),
        None => {
            let not: Vec<String> = named.iter().map(|gpu| format!("gpu != {gpu}")).collect();
            let not = if not.is_empty() { "1".to_string() } else { not.join(" && ") };
            format!(
                "    for (int gpu = 0; gpu < gpu_count(); gpu++)\n        if ({not})\n            all = both(all, {});\n",
                ask("gpu")
            )
        }
    };
    let line = match question {
        EffectQuestion::Status { at, names } => {
            let mut asked: Option<String> = None;
            for name in *names {
                let (library, code) = status(name)
                    .ok_or_else(|| Refusal(format!("its effect is the status `{name}`, which has no number")))?;
                let one = format!("status_is(run, {}, {}, {code} /* {name} */)", literal(at), short(library));
                asked = Some(asked.map_or(one.clone(), |before| format!("either({before}, {one})")));
            }
            format!("    all = both(all, {});\n", asked.unwrap_or_default())
        }
        EffectQuestion::Value { at, name, order, operand } => {
            let start = format!("run, {}, {}, {}", literal(at), literal(name), order.to_ascii_uppercase());
            let asked = match operand {
                Operand::Int(value) => format!("number_is({start}, {value})"),
                Operand::Text(text) if text == "${gpus}" => format!("number_is({start}, gpu_count())"),
                Operand::Text(of) => format!("text_is({start}, {})", text(of)),
                Operand::Value { label, name } => format!("value_is({start}, {}, {})", literal(label), literal(name)),
            };
            format!("    all = both(all, {asked});\n")
        }
        EffectQuestion::Visible { at, gpus } => {
            format!("    all = both(all, visible_is(run, {}, {}));\n", literal(at), literal(gpus))
        }
        EffectQuestion::Contexts { at, gpus } => {
            format!("    all = both(all, contexts_are(run, {}, {}));\n", literal(at), literal(gpus))
        }
        EffectQuestion::Current { at, gpu } => {
            format!("    all = both(all, current_is(run, {}, {}));\n", literal(at), literal(gpu))
        }
        EffectQuestion::Initialised { at, yes } => {
            format!("    all = both(all, initialised_is(run, {}, {}));\n", literal(at), i32::from(*yes))
        }
        EffectQuestion::Memory { at, gpu, named, classes } => {
            let classes: Vec<String> = classes.iter().map(|class| class.to_ascii_uppercase()).collect();
            let classes = classes.join(" | ");
            for_each(*gpu, named, &|gpu| format!("memory_is(run, {}, {gpu}, {classes})", literal(at)))
        }
        EffectQuestion::Bytes { at, grown, gpu, named, order, bytes } => {
            let asked = if *grown { "grown_is" } else { "used_is" };
            let order = order.to_ascii_uppercase();
            for_each(*gpu, named, &|gpu| format!("{asked}(run, {}, {gpu}, {order}, {bytes}LL)", literal(at)))
        }
        EffectQuestion::End { how } => format!("    all = both(all, ended_by(run, {}));\n", literal(how)),
    };
    out.push_str(&line);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_string_or_its_comment() {
        assert_eq!(literal("a\"\\b\nc\u{1}2??)"), "\"a\\\"\\\\b\\nc\\0012\\?\\?)\"");
        assert_eq!(comment("x */ int y; /* z"), "x * / int y; / * z");
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit() {
        let sizes = [1 << 20, 3 << 30, 100, 4096, 0, -1].map(size);
        assert_eq!(sizes, ["1 << 20", "(size_t)3 << 30", "100", "4 << 10", "0", "-1"]);
    }

    #[test]
    fn a_variable_is_a_name_of_c() {
        assert_eq!(["default", "2nd", "a-b", "memory"].map(variable), ["default_", "_2nd_", "a_b", "memory"]);
    }
}
