//! A reproducer in Python: calls by ctypes, or the lines of a case of Python lines as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cuda_pitfalls_calls::{
    self as calls, Call, CallLibrary, FieldType, Output, Param, ParamKind, RETURNED_TEXT, Returns,
};

use super::Refusal;
use super::c::{short, status};
use super::lines::{indented, last_expression};
use super::program::{
    Action, Argument, Doing, EffectQuestion, MAIN, Number, Reproducer, Sequence, plain_type, questions, warning,
};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::Operand;
use cuda_pitfalls_core::text::escape::visible;
use cuda_pitfalls_core::text::lines::words;

const RUNTIME: &str = include_str!("runtime.py");

/// Names that a variable must not take: keywords, what Python has built in and the runtime uses, and the
/// libraries. Names of the runtime itself are found in it.
const TAKEN: [&str; 67] = [
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "seen",
    "cuda",
    "cudart",
    "nvml",
    "nvrtc",
    "cublas",
    "cufft",
    "nccl",
    "bytearray",
    "bytes",
    "bool",
    "compile",
    "dict",
    "eval",
    "exec",
    "float",
    "globals",
    "int",
    "isinstance",
    "iter",
    "len",
    "list",
    "map",
    "max",
    "min",
    "open",
    "print",
    "range",
    "repr",
    "reversed",
    "sorted",
    "str",
    "tuple",
    "type",
    "zip",
];

/// Whether the runtime has this name at its top: a function, a class, a module or a value.
fn is_of_runtime(name: &str) -> bool {
    let is_it = |line: &str| {
        let rest = ["def ", "class ", "import "].iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line);
        let rest = rest.strip_prefix(name).unwrap_or("_");
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    };
    RUNTIME.lines().filter(|line| !line.starts_with([' ', '#'])).any(is_it)
}

/// The whole file.
pub(super) fn file(program: &Reproducer<'_>) -> Result<String, Refusal> {
    let mut out = header(program);
    out.push_str(RUNTIME);
    settings(program, &mut out);
    effect(program, &mut out)?;
    kernels(program, &mut out);
    out.push_str("\n\nif CASE == \"(context)\":\n    make_context()\n");
    libraries(program, &mut out);
    for sequence in &program.cases {
        case(sequence, &mut out)?;
    }
    out.push_str("\nif __name__ == \"__main__\":\n    sys.exit(main())\n");
    Ok(out)
}

/// A Python string. Text of JSON is one too.
pub(super) fn literal(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A Python literal of bytes: the text in UTF-8. Only ASCII may stand in one.
fn bytes_literal(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("b\"{}\"", escaped.collect::<String>())
}

fn header(program: &Reproducer<'_>) -> String {
    let scenario = program.scenario;
    let mut lines = words(&scenario.question, 100);
    lines.push(String::new());
    for sequence in &program.cases {
        lines.extend(words(&format!("{}: {}", sequence.case.name, sequence.case.does), 100));
    }
    if !scenario.answer.is_empty() {
        lines.push(String::new());
        lines.extend(words(&format!("Measured before: {}", scenario.answer), 100));
    }
    for hazard in &scenario.hazards {
        lines.extend(words(&format!("Careful: {}", warning(*hazard)), 100));
    }
    lines.push(String::new());
    lines.push(format!("python3 {}.py; echo $?", program.stem_or("reproducer")));
    lines.push(String::new());
    let needs = if program.is_of_lines() {
        format!("and {}", needs(program).into_iter().collect::<Vec<_>>().join(", "))
    } else {
        "and no package".to_string()
    };
    lines.extend(words(
        &format!(
            "Exit code: 0 if the effect shows in the trap and not in the control, 1 if it does not show in the trap, \
             2 if it cannot be told. Needs Linux, an idle GPU, Python 3.8 {needs}."
        ),
        100,
    ));
    lines.extend(words(
        &format!("Written by cuda-pitfalls {} from {}.", env!("CARGO_PKG_VERSION"), program.instance.name),
        100,
    ));
    let text: Vec<String> =
        lines.iter().map(|line| visible(line).replace('\\', "\\\\").replace("\"\"\"", "'''")).collect();
    format!("#!/usr/bin/env python3\n\"\"\"{}\n\"\"\"\n", text.join("\n"))
}

/// The packages that the lines of its cases need, each once.
pub(super) fn needs<'p>(program: &Reproducer<'p>) -> BTreeSet<&'p str> {
    program.cases.iter().filter_map(|it| it.case.python.as_ref()).flat_map(|it| &it.needs).map(String::as_str).collect()
}

fn settings(program: &Reproducer<'_>, out: &mut String) {
    let needs: Vec<String> = needs(program).into_iter().map(literal).collect();
    let _ = write!(
        out,
        "\n\nQUESTION = {}\nNEEDS = [{}]\nNEEDED_GPUS, STEP_TIMEOUT, MEASURES_CONTEXT = {}, {}, {}\nORDERS = {{\n",
        literal(&program.scenario.question),
        needs.join(", "),
        program.scenario.needs.gpus,
        program.scenario.step_timeout_ms.div_ceil(1000),
        if program.measures_context() { "True" } else { "False" },
    );
    for sequence in &program.cases {
        let environment: Vec<String> =
            sequence.case.env.iter().map(|(name, value)| format!("{}: {}", literal(name), literal(value))).collect();
        let labels: Vec<String> = sequence.steps.iter().map(|action| literal(&action.step.label)).collect();
        let actors: Vec<String> =
            sequence.steps.iter().map(|action| process_of(sequence, action.actor).to_string()).collect();
        let forked = sequence.steps.iter().filter_map(|action| match action.doing {
            Doing::Fork { actor } => Some(actor.to_string()),
            _ => None,
        });
        let forked: Vec<String> = forked.collect();
        let _ = write!(
            out,
            "    {}: {{\n        \"does\": {}, \"masked\": {}, \"environment\": {{{}}}, \"probes\": {}, \"lines\": {},\n        \
             \"labels\": [{}], \"actors\": [{}], \"forked\": [{}],\n    }},\n",
            literal(&sequence.case.name),
            literal(&sequence.case.does),
            sequence.masked().map_or("MASKED".to_string(), |count| count.to_string()),
            environment.join(", "),
            if sequence.case.probes { "True" } else { "False" },
            if sequence.case.python.is_some() { "True" } else { "False" },
            labels.join(", "),
            actors.join(", "),
            forked.join(", "),
        );
    }
    out.push_str("}\n");
}

/// The process in which a thread runs; of a process itself.
fn process_of(sequence: &Sequence<'_>, actor: usize) -> usize {
    let maker = sequence.steps.iter().find_map(|action| match action.doing {
        Doing::StartThread { actor: started } if started == actor => Some(action.actor),
        _ => None,
    });
    maker.map_or(actor, |maker| process_of(sequence, maker))
}

fn is_thread(sequence: &Sequence<'_>, actor: usize) -> bool {
    process_of(sequence, actor) != actor
}

pub(super) fn kernels(program: &Reproducer<'_>, out: &mut String) {
    let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
    for action in program.actions() {
        if let Doing::Call { arguments, .. } = &action.doing {
            texts.extend(arguments.iter().filter_map(|argument| match argument {
                Argument::Kernel(name) => Some((name.as_str(), catalogue::kernel(name).unwrap_or_default())),
                _ => None,
            }));
        }
    }
    for (name, text) in texts {
        let _ = write!(
            out,
            "\n\nKERNEL_{} = b\"\"\"{}\"\"\"\n",
            variable(name).to_ascii_uppercase(),
            text.replace('\\', "\\\\")
        );
    }
}

fn libraries(program: &Reproducer<'_>, out: &mut String) {
    if program.is_of_lines() {
        return;
    }
    let calls = program.calls();
    let uses = |library: CallLibrary| calls.iter().any(|call| call.library == library);
    out.push_str("if CASE is not None:\n    cuda = load(\"libcuda.so.1\", \"libcuda.so\")\n");
    if uses(CallLibrary::Runtime) {
        out.push_str("    cudart = load_runtime()\n");
    }
    if uses(CallLibrary::Nvml) {
        out.push_str("    nvml = load(\"libnvidia-ml.so.1\", \"libnvidia-ml.so\")\n");
    }
    for (library, name, versions) in [
        (CallLibrary::Nvrtc, "nvrtc", ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]),
        (CallLibrary::Cublas, "cublas", ["libcublas.so", "libcublas.so.13", "libcublas.so.12"]),
        (CallLibrary::Cufft, "cufft", ["libcufft.so", "libcufft.so.12", "libcufft.so.11"]),
        (CallLibrary::Nccl, "nccl", ["libnccl.so.2", "libnccl.so", "libnccl.so.1"]),
    ] {
        if uses(library) {
            let names: Vec<String> = versions.iter().map(|version| literal(version)).collect();
            let _ = writeln!(out, "    {name} = load({})", names.join(", "));
        }
    }
    for call in calls.iter().filter(|call| call.returns == Returns::Text) {
        let _ = writeln!(out, "    {}.{}.restype = c_char_p", object(call.library), call.name);
    }
}

/// The variable that holds a library.
pub(super) fn object(library: CallLibrary) -> &'static str {
    match library {
        CallLibrary::Driver => "cuda",
        CallLibrary::Runtime => "cudart",
        CallLibrary::Nvml => "nvml",
        CallLibrary::Nvrtc => "nvrtc",
        CallLibrary::Cublas => "cublas",
        CallLibrary::Cufft => "cufft",
        CallLibrary::Nccl => "nccl",
        CallLibrary::Libc | CallLibrary::Harness => "environ",
    }
}

pub(super) fn variable(name: &str) -> String {
    let mut text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.insert(0, '_');
    }
    if TAKEN.contains(&text.as_str()) || is_of_runtime(&text) {
        text.push('_');
    }
    text
}

fn actor_name(sequence: &Sequence<'_>, actor: usize) -> String {
    let name = variable(sequence.actors.get(actor).map(String::as_str).unwrap_or_default());
    // In capitals it is the number of the process.
    if name == name.to_ascii_uppercase() { format!("{name}_process") } else { name }
}

fn case(sequence: &Sequence<'_>, out: &mut String) -> Result<(), Refusal> {
    let comment = visible(&sequence.case.does);
    let _ = write!(out, "\n# {}: {comment}\nif CASE == {}:\n", sequence.case.name, literal(&sequence.case.name));
    for held in &sequence.variables {
        let _ = writeln!(out, "    {} = c_void_p()", variable(&held.name));
    }
    let has_processes =
        sequence.steps.iter().any(|action| matches!(action.doing, Doing::Fork { .. } | Doing::Spawn { .. }));
    if has_processes {
        for index in 1..sequence.actors.len() {
            if !is_thread(sequence, index) {
                let name = actor_name(sequence, index).to_ascii_uppercase();
                let _ = writeln!(out, "    {name} = {index}  # makes the steps that name it");
            }
        }
    }
    for action in &sequence.steps {
        let process = process_of(sequence, action.actor);
        let on_thread = is_thread(sequence, action.actor);
        if on_thread && matches!(action.doing, Doing::Fork { .. } | Doing::Spawn { .. } | Doing::StartThread { .. }) {
            return Err(Refusal("a thread of it starts a process or a thread; write it `--as c`".to_string()));
        }
        let mut pad = "    ".to_string();
        if has_processes {
            let who =
                if process == MAIN { "MAIN".to_string() } else { actor_name(sequence, process).to_ascii_uppercase() };
            let _ = writeln!(out, "{pad}if ME == {who}:");
            pad.push_str("    ");
        }
        step(sequence, action, on_thread, &pad, out)?;
    }
    out.push_str("    leave()\n");
    Ok(())
}

fn step(
    sequence: &Sequence<'_>,
    action: &Action<'_>,
    on_thread: bool,
    pad: &str,
    out: &mut String,
) -> Result<(), Refusal> {
    let label = literal(&action.step.label);
    let thread = actor_name(sequence, action.actor);
    if let Doing::Line { text, value } = &action.doing {
        let inner = format!("{pad}    ");
        match (on_thread, value) {
            (true, None) => {
                let _ = writeln!(out, "{pad}{thread}.run({label}, {})", literal(text));
            }
            (true, Some(name)) => {
                if last_expression(text).0.trim() != "" {
                    return Err(Refusal("a line on a thread has a value behind other statements".to_string()));
                }
                let _ = writeln!(out, "{pad}{thread}.run({label}, {}, {})", literal(text), literal(name));
            }
            (false, None) => {
                let _ = writeln!(out, "{pad}with step({label}):\n{}", indented(text, &inner));
            }
            (false, Some(name)) => {
                let (before, last) = last_expression(text);
                let _ = writeln!(out, "{pad}with step({label}) as seen:");
                if !before.trim().is_empty() {
                    let _ = writeln!(out, "{}", indented(before.trim_end(), &inner));
                }
                let _ = writeln!(out, "{inner}seen.value({}, {})", literal(name), last.trim());
            }
        }
        return Ok(());
    }
    if on_thread {
        let _ = writeln!(out, "{pad}@{thread}.step({label})\n{pad}def _(seen):");
    } else {
        let _ = writeln!(out, "{pad}with step({label}) as seen:");
    }
    for line in made(sequence, action) {
        let _ = writeln!(out, "{pad}    {line}");
    }
    if on_thread {
        out.push('\n');
    }
    Ok(())
}

fn text(text: &str) -> String {
    if text.contains("${") { format!("filled({})", literal(text)) } else { literal(text) }
}

fn encoded(of: &str) -> String {
    if of.contains("${") { format!("{}.encode()", text(of)) } else { bytes_literal(of) }
}

/// What a step does, in lines.
pub(super) fn made(sequence: &Sequence<'_>, action: &Action<'_>) -> Vec<String> {
    let is_of_lines = sequence.case.python.is_some();
    let name = |actor: &usize| actor_name(sequence, *actor);
    let upper = |actor: &usize| name(actor).to_ascii_uppercase();
    match &action.doing {
        // The environment of Python is that of C, and stays so.
        Doing::Call { call, arguments } if is_of_lines && call.library == CallLibrary::Libc => {
            let texts: Vec<String> = arguments
                .iter()
                .filter_map(|argument| if let Argument::Text(of) = argument { Some(text(of)) } else { None })
                .collect();
            match texts.as_slice() {
                [name, value] => vec![format!("os.environ[{name}] = {value}")],
                [name] => vec![format!("os.environ.pop({name}, None)")],
                _ => vec!["pass".to_string()],
            }
        }
        Doing::Call { call, arguments } => checked(call, called(sequence, action, call, arguments)),
        Doing::Line { .. } => Vec::new(),
        Doing::Mark => vec!["pass  # no call: memory and contexts are read".to_string()],
        Doing::Environ { name, value } => vec![format!("set_environ({}, {})", literal(name), text(value))],
        Doing::Getenv { name } => vec![
            "environ.getenv.restype = c_char_p".to_string(),
            format!("text = environ.getenv({})", bytes_literal(name)),
            "if text is not None:".to_string(),
            "    seen.text(\"value\", text)".to_string(),
        ],
        Doing::Getpid => vec!["seen.value(\"pid\", os.getpid())".to_string()],
        Doing::Sleep { milliseconds } => vec![format!("time.sleep({milliseconds} / 1000)")],
        Doing::StartThread { actor } => vec![format!("{} = Thread()", name(actor))],
        Doing::Join { actor } => vec![format!("{}.join()", name(actor))],
        Doing::Fork { actor } => vec![format!("{} = fork(seen, {})", name(actor), upper(actor))],
        Doing::Spawn { actor } => vec![format!("{} = start_process(seen, {})", name(actor), upper(actor))],
        Doing::Wait { actor } => vec![format!("wait_for(seen, {}, {})", upper(actor), name(actor))],
        Doing::Kill { actor, signal } => {
            let words = match signal {
                Number::Named(signal, _) => format!("signal.{signal}"),
                other => number(other),
            };
            let mut lines = vec![format!("os.kill({}, {words})", name(actor))];
            // As in C: what follows asks about a process that has ended.
            lines.extend(signal.is_sigkill().then(|| format!("wait_for_end({})", name(actor))));
            lines
        }
        Doing::Memset { variable: held, value, bytes } => {
            vec![format!("ctypes.memset({}.value, {value}, {bytes})", variable(held))]
        }
        Doing::Open { file } => vec![
            "try:".to_string(),
            format!("    ctypes.CDLL({})", literal(file)),
            "except OSError:".to_string(),
            "    seen.returned(LIBC, errno.ENOENT)".to_string(),
        ],
        Doing::MaxRss => vec![
            "import resource".to_string(),
            "usage = resource.getrusage(resource.RUSAGE_SELF)".to_string(),
            "seen.value(\"max_rss_bytes\", usage.ru_maxrss * 1024)".to_string(),
        ],
    }
}

fn number(number: &Number) -> String {
    match number {
        Number::Int(value) | Number::Named(_, value) => value.to_string(),
        Number::Gpus => "len(GPUS)".to_string(),
    }
}

/// The number in the type of its parameter, with its name in C behind it.
fn typed(param: &Param, c_type: &str, value: &Number) -> String {
    let of = match param.kind {
        ParamKind::Bytes => "c_size_t",
        ParamKind::U64 => "c_ulonglong",
        ParamKind::U32 => "c_uint",
        ParamKind::I32 | ParamKind::Constant(_) | ParamKind::Pid => "c_int",
        _ if c_type.contains('*') => "c_void_p",
        _ if c_type == "int" => "c_int",
        _ if c_type == "unsigned int" => "c_uint",
        _ => "c_size_t",
    };
    format!("{of}({})", number(value))
}

fn block(sequence: &Sequence<'_>, name: &str) -> usize {
    sequence.blocks.iter().position(|block| block == name).unwrap_or(0)
}

/// A call as it is written.
pub(super) struct CallText {
    /// Room for what it writes.
    pub(super) before: Vec<String>,
    /// The call itself.
    pub(super) made: String,
    /// Lines that print what it wrote.
    pub(super) told: Vec<String>,
    /// Names of what is passed as a number, as a comment.
    pub(super) behind: String,
}

pub(super) fn called(sequence: &Sequence<'_>, action: &Action<'_>, call: &Call, arguments: &[Argument]) -> CallText {
    let (mut lines, mut passed, mut told, mut named) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (param, argument) in call.params.iter().zip(arguments) {
        if param.c_type.is_empty() {
            continue;
        }
        let c_type = plain_type(param.c_type);
        passed.push(match argument {
            Argument::Number(Number::Int(0)) if c_type.contains('*') => "None".to_string(),
            Argument::Number(value) => {
                if let Number::Named(name, _) = value {
                    named.push(*name);
                }
                typed(param, &c_type, value)
            }
            Argument::Text(of) => encoded(of),
            Argument::Variable(name) => variable(name),
            Argument::Process(actor) => format!("c_int({})", actor_name(sequence, *actor)),
            Argument::Handle(0) => "None".to_string(),
            Argument::Handle(value) => format!("c_void_p({value})"),
            Argument::Kernel(name) => format!("KERNEL_{}", variable(name).to_ascii_uppercase()),
            Argument::List(values) => list(values),
            Argument::Dim3(x, z) => format!("Dim3({x}, 1, {z})"),
            Argument::Location { host: true, .. } => "Location(2, 0)".to_string(),
            Argument::Location { device, .. } => format!("Location(1, {})", number(device)),
            Argument::Struct { template, given } => {
                let mut words: Vec<String> =
                    template.preset.iter().map(|word| format!("({}, 4, {:#x})", word.offset, word.value)).collect();
                words.push(format!("({}, {}, {})", template.given, template.width, number(given)));
                named.push(template.name);
                format!("room({}, {})", template.size, words.join(", "))
            }
            Argument::Block(name) => format!("block64({})", block(sequence, name)),
            Argument::Out(output) => written(sequence, action, param, *output, &mut lines, &mut told),
            Argument::Rest => continue,
        });
    }
    let behind = if named.is_empty() { String::new() } else { format!("  # {}", named.join(", ")) };
    let made = format!("{}.{}({})", object(call.library), call.name, passed.join(", "));
    CallText { before: lines, made, told, behind }
}

/// The call with the check of its status, and what is told after it.
fn checked(call: &Call, written: CallText) -> Vec<String> {
    let CallText { before: mut lines, made, told, behind } = written;
    if call.returns == Returns::Text {
        lines.push(format!("seen.text({}, {made}){behind}", literal(RETURNED_TEXT)));
        return lines;
    }
    let whole = match call.library {
        CallLibrary::Libc => format!("errno_of(seen, {made})"),
        library => format!("seen.returned({}, {made})", short(library)),
    };
    if told.is_empty() {
        lines.push(format!("{whole}{behind}"));
    } else {
        lines.push(format!("if {whole}:{behind}"));
        lines.extend(told.iter().map(|line| format!("    {line}")));
    }
    lines
}

/// The arguments of a kernel.
fn list(values: &[Argument]) -> String {
    let each = |value: &Argument| match value {
        Argument::Variable(name) => variable(name),
        Argument::Number(value) => number(value),
        Argument::Handle(value) => value.to_string(),
        _ => "0".to_string(),
    };
    let all: Vec<String> = values.iter().map(each).collect();
    format!("list_of({})", all.join(", "))
}

/// What is passed for what the callee writes.
fn written(
    sequence: &Sequence<'_>,
    action: &Action<'_>,
    param: &Param,
    output: Output,
    lines: &mut Vec<String>,
    told: &mut Vec<String>,
) -> String {
    let name = variable(param.name);
    let key = literal(param.name);
    let mut simple = |of: &str| {
        lines.push(format!("{name} = {of}()"));
        told.push(format!("seen.value({key}, {name}.value)"));
        format!("byref({name})")
    };
    match output {
        Output::I32 => simple("c_int"),
        Output::U32 => simple("c_uint"),
        Output::F32 => simple("c_float"),
        Output::U64 | Output::Varying => simple("c_uint64"),
        Output::Word(_) if action.step.bind.is_none() => simple("c_uint64"),
        Output::Uuid => {
            lines.push(format!("{name} = (c_ubyte * 16)()"));
            told.push(format!("seen.value({key}, uuid_text({name}))"));
            name
        }
        Output::Text(bytes) => {
            lines.push(format!("{name} = ctypes.create_string_buffer({bytes})"));
            told.push(format!("seen.text({key}, {name}.value)"));
            name
        }
        Output::Handle(_) | Output::Word(_) => match &action.step.bind {
            Some(bound) => {
                told.push(format!("seen.bound({key}, {})", variable(bound)));
                format!("byref({})", variable(bound))
            }
            None => {
                lines.push(format!("{name} = c_void_p()"));
                told.push(format!("seen.bound({key}, {name})"));
                format!("byref({name})")
            }
        },
        Output::Blob(_, bytes) => match &action.step.bind {
            Some(bound) => format!("block({})", block(sequence, bound)),
            None => format!("room({bytes})"),
        },
        Output::Struct(layout) => structure(name, layout, lines, told),
    }
}

/// Room for a struct that the callee writes, and how its members are told.
fn structure(name: String, layout: &calls::Layout, lines: &mut Vec<String>, told: &mut Vec<String>) -> String {
    let words = layout.preset.iter().map(|word| format!(", ({}, 4, {:#x})", word.offset, word.value));
    let words: String = words.collect();
    lines.push(format!("{name} = room({}{words})", layout.size));
    for field in &layout.fields {
        let key = literal(field.name);
        told.push(match field.read {
            FieldType::I32 => format!("seen.value({key}, word_at({name}, {}, 4))", field.offset),
            FieldType::U64 => format!("seen.value({key}, word_at({name}, {}, 8))", field.offset),
            FieldType::Text(_) => format!("seen.text({key}, text_at({name}, {}))", field.offset),
        });
    }
    name
}

fn effect(program: &Reproducer<'_>, out: &mut String) -> Result<(), Refusal> {
    out.push_str("\n\ndef effect(run):\n    \"\"\"Whether the effect shows in a case.\"\"\"\n    return run.all(\n");
    for question in questions(&program.instance.effect)? {
        let names = match &question {
            EffectQuestion::Status { names, .. } if !program.is_of_lines() => format!("  # {}", names.join(", ")),
            _ => String::new(),
        };
        let _ = writeln!(out, "        {},{names}", ask(&question, program.is_of_lines())?);
    }
    out.push_str("    )\n");
    Ok(())
}

fn ask(question: &EffectQuestion<'_>, is_of_lines: bool) -> Result<String, Refusal> {
    let listed = |gpus: &str| match gpus {
        "all" => "\"all\"".to_string(),
        names => {
            let names: Vec<String> = names.split(',').filter(|name| !name.is_empty()).map(literal).collect();
            format!("[{}]", names.join(", "))
        }
    };
    let for_each = |gpu: Option<u32>, named: &[u32], ask: &dyn Fn(&str) -> String| match gpu {
        Some(gpu) => ask(&gpu.to_string()),
        None => {
            let named: Vec<String> = named.iter().map(u32::to_string).collect();
            format!("*[{} for gpu in run.others({})]", ask("gpu"), named.join(", "))
        }
    };
    Ok(match question {
        EffectQuestion::Status { at, names } => {
            let mut all = Vec::new();
            for name in *names {
                if is_of_lines {
                    all.push(format!("(PYTHON, {})", literal(name)));
                    continue;
                }
                let (library, code) = status(name)
                    .ok_or_else(|| Refusal(format!("its effect is the status `{name}`, which has no number")))?;
                all.push(format!("({}, {code})", short(library)));
            }
            format!("run.status({}, {})", literal(at), all.join(", "))
        }
        EffectQuestion::Value { at, name, order, operand } => {
            let other = match operand {
                Operand::Int(value) => value.to_string(),
                Operand::Text(text) if text == "${gpus}" => "len(GPUS)".to_string(),
                Operand::Text(of) => text(of),
                Operand::Value { label, name } => format!("run.of({}, {})", literal(label), literal(name)),
            };
            format!("run.value({}, {}, {}, {other})", literal(at), literal(name), literal(order))
        }
        EffectQuestion::Visible { at, gpus } => format!("run.visible({}, {})", literal(at), listed(gpus)),
        EffectQuestion::Contexts { at, gpus } => format!("run.contexts({}, {})", literal(at), listed(gpus)),
        EffectQuestion::Current { at, gpu } => format!("run.current({}, {})", literal(at), literal(gpu)),
        EffectQuestion::Initialised { at, yes } => {
            format!("run.initialised({}, {})", literal(at), if *yes { "True" } else { "False" })
        }
        EffectQuestion::Memory { at, gpu, named, classes } => {
            let classes: Vec<String> = classes.iter().map(|class| literal(class)).collect();
            for_each(*gpu, named, &|gpu| format!("run.memory({}, {gpu}, {})", literal(at), classes.join(", ")))
        }
        EffectQuestion::Bytes { at, grown, gpu, named, order, bytes } => {
            let asked = if *grown { "grown_bytes" } else { "used_bytes" };
            for_each(*gpu, named, &|gpu| format!("run.{asked}({}, {gpu}, {}, {bytes})", literal(at), literal(order)))
        }
        EffectQuestion::End { how } => format!("run.end == {}", literal(how)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_hides_nothing_that_is_used() {
        assert_eq!(variable("memory"), "memory");
        for name in ["range", "step", "queue", "TURN", "Seen", "in"] {
            assert_eq!(variable(name), format!("{name}_"));
        }
        assert_eq!(variable("2nd-stream"), "_2nd_stream");
    }

    #[test]
    fn bytes_are_ascii_whatever_the_text_is() {
        assert_eq!(bytes_literal("CUDA_VISIBLE_DEVICES"), "b\"CUDA_VISIBLE_DEVICES\"");
        // Python refuses `b"é"`, and reads `\u001b` in bytes as six characters.
        assert_eq!(bytes_literal("é\u{1b}\"\\\n"), r#"b"\xc3\xa9\x1b\"\\\x0a""#);
        assert_eq!(encoded("é"), r#"b"\xc3\xa9""#);
    }
}
