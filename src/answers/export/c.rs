//! A reproducer in C: the calls as a person would write them, and what is asked between them.
//!
//! It declares what it calls and looks it up in the libraries, which it opens by their names: so it compiles where
//! there is no CUDA at all, uses the libcudart that is there, and calls exactly the functions that it names. A header
//! renames some from version to version (`cuCtxCreate` is `cuCtxCreate_v2` in one, `cuCtxCreate_v4` in another).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, FieldType, Output, Param, ParamKind, Returns};

use super::Language;
use super::effect::{EffectQuestion, GpuSet, Notation, Questions, Since, asked, gpu_named};
use super::program::{
    Action, Argument, Doing, Done, Number, Piece, Refusal, Reproducer, Sequence, filled, identifier, plain_type,
    used_helpers,
};
use cuda_pitfalls_core::scenario::Operand;
use cuda_pitfalls_core::text::escape::visible;

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
const TAKEN: [&str; 42] = [
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "int", "long", "register", "return", "short", "signed", "sizeof", "static", "struct",
    "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "inline", "kill", "fork", "free", "environ",
    "start", "before", "asked", "failed", "index",
];

/// Functions that stand in a file if something in it uses them.
const HELPERS: &str = include_str!("helpers.c");
/// What is defined if something uses it.
const TOLD: [(&str, &str); 10] = [
    ("", "#define OPEN(name) dlopen(name, RTLD_NOW | RTLD_GLOBAL)\n"),
    (
        "CALL(",
        "#define CALL(...) ({ int status = (int)(__VA_ARGS__); printf(\"  %s = %d\\n\", #__VA_ARGS__, status); status; })\n",
    ),
    (
        "SHOW(",
        "#define SHOW(value) ({ printf(\"    %s = %lld\\n\", #value, (long long)(value)); (long long)(value); })\n",
    ),
    ("SHOW_TEXT(", "#define SHOW_TEXT(value) ({ printf(\"    %s = %s\\n\", #value, value); value; })\n"),
    (
        "EXPECT(",
        "#define EXPECT(holds, what) \\\n    ({ int yes = (holds); asked++, failed += !yes; printf(\"  %s: %s\\n\", yes ? \"yes\" : \"no\", what); })\n",
    ),
    (
        "IN_A_THREAD(",
        "#define IN_A_THREAD(work) ({ pthread_t id; pthread_create(&id, NULL, work, NULL); pthread_join(id, NULL); })\n",
    ),
    (
        "DEVICES",
        "#define DEVICES ({ int count = 0; cuDeviceGetCount(&count) == 0 ? count : -1; }) /* that CUDA shows */\n",
    ),
    (
        "CURRENT",
        "#define CURRENT ({ int device = 0; cuCtxGetDevice(&device) == 0 ? device : -1; }) /* the context's device */\n",
    ),
    ("CONTEXT", "#define CONTEXT (64LL << 20) /* a context takes more, cuInit less */\n"),
    ("NOISE", "#define NOISE (2LL << 20) /* a driver takes memory in blocks of 2 MiB */\n"),
];
/// The whole file.
pub(super) fn file(program: &Reproducer<'_>) -> Result<String, Refusal> {
    if program.is_of_lines() {
        return Err(Refusal::new("its steps are lines of Python; write it `--as python`"));
    }
    let mut bodies = String::new();
    let mut held = BTreeMap::new();
    for sequence in &program.cases {
        let mut case = CaseText::new(program, sequence);
        case.write()?;
        for (name, c_type) in case.of_file {
            if held.insert(name.clone(), c_type.clone()).is_some_and(|other| other != c_type) {
                return Err(Refusal(format!("`{name}` is of one type in the trap and of another in the control")));
            }
        }
        bodies.push_str(&case.functions);
        bodies.push_str(&case.text);
    }
    let body = format!("{bodies}{}", main_function(program));
    let helpers = used_helpers(HELPERS, &body, "\n");
    let mut called = program.calls();
    let is_word_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    called.extend(helpers.split(is_word_end).filter_map(calls::find));
    for (use_of_it, name) in [("DEVICES", "cuDeviceGetCount"), ("CURRENT", "cuCtxGetDevice")] {
        called.extend(body.contains(use_of_it).then(|| calls::find(name)).flatten());
    }
    called.retain(|call| !matches!(call.library, CallLibrary::Libc | CallLibrary::Harness));
    called.sort_by_key(|call| (call.library, call.name));
    called.dedup_by_key(|call| call.name);

    let mut out = header(program);
    let all = format!("{helpers}{body}");
    let includes = [
        ("dlfcn", ""),
        ("errno", "errno"),
        ("pthread", "IN_A_THREAD("),
        ("stdarg", "va_list"),
        ("stdint", "int64_t"),
        ("stdint", "intptr_t"),
        ("stdio", ""),
        ("stdlib", ""),
        ("string", "str"),
        ("string", "memset("),
        ("sys/mman", "mmap("),
        ("sys/resource", "getrusage("),
        ("sys/wait", "waitpid("),
        ("unistd", "usleep("),
        ("unistd", "fork("),
        ("unistd", "getpid("),
    ];
    out.push_str("#define _GNU_SOURCE\n");
    for (name, use_of_it) in includes {
        let include = format!("#include <{name}.h>\n");
        if all.contains(use_of_it) && !out.contains(&include) {
            out.push_str(&include);
        }
    }
    out.push('\n');
    declarations(program, &called, &mut out);
    for (use_of_it, text) in TOLD {
        if all.contains(use_of_it) {
            out.push_str(text);
        }
    }
    out.push_str("static int asked, failed;\n");
    for (name, c_type) in &held {
        let _ = writeln!(out, "static {};", declared(c_type, name));
    }
    out.push_str(&helpers);
    kernels(program, &mut out);
    out.push_str(&body);
    Ok(out)
}

/// Text for a comment.
fn comment(text: &str) -> String {
    visible(text).replace("*/", "* /").replace("/*", "/ *")
}

/// A C string.
fn literal(text: &str) -> String {
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
    let commands = Language::C.commands(&program.stem).join(" && ");
    let needs = if program.calls().iter().any(|call| call.library == CallLibrary::Runtime) {
        "LIBCUDART=PATH names a libcudart. "
    } else {
        ""
    };
    let lines = program.header(&format!("{commands}; echo $?"), needs).into_iter();
    let body: String = lines.map(|line| format!(" * {}", comment(&line)).trim_end().to_string() + "\n").collect();
    format!("/*\n{body} */\n")
}

/// The types and the functions of some calls, as the headers declare them.
fn declarations(program: &Reproducer<'_>, called: &[&Call], out: &mut String) {
    out.push_str("/* What is called, as cuda.h, cuda_runtime_api.h and nvml.h declare it. */\n");
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut others: BTreeSet<String> = BTreeSet::new();
    for param in called.iter().flat_map(|call| &call.params).filter(|param| !is_raw(param)) {
        let plain = c_type(param).replace("const ", "");
        let base = plain.replace("*const", "");
        let base = base.trim_end_matches(['*', ' ']);
        if base.is_empty() || BUILT_IN.contains(&base) {
            continue;
        }
        match declared_type(base, param, plain.contains('*')) {
            TypeText::Is(c_type) => {
                let names = names.entry(c_type).or_default();
                if !names.iter().any(|name| name == base) {
                    names.push(base.to_owned());
                }
            }
            TypeText::Whole(text) => drop(others.insert(text)),
        }
    }
    for (c_type, names) in names {
        let _ = writeln!(
            out,
            "typedef {};",
            declared(c_type, &names.join(if c_type.ends_with('*') { ", *" } else { ", " }))
        );
    }
    out.extend(others.iter().map(|text| format!("{text}\n")));
    let named = program.arguments().filter_map(|argument| match argument {
        Argument::Number(Number::Named(name, value)) => Some((*name, *value)),
        _ => None,
    });
    let named: BTreeMap<&str, i64> = named.collect();
    if !named.is_empty() {
        let all: Vec<String> = named.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let _ = writeln!(out, "enum {{ {} }};", all.join(", "));
    }
    let entries = called.iter().map(|call| {
        let types = call.params.iter().filter(|param| !param.c_type.is_empty());
        let types = types.map(|param| if is_raw(param) { "void *".to_owned() } else { c_type(param) });
        let types: Vec<String> = types.collect();
        let types = if types.is_empty() { "void".to_string() } else { types.join(", ") };
        let result = if call.returns == Returns::Text { "const char *" } else { "int" };
        format!("F({result}, {}, ({types}))", call.name)
    });
    let _ = writeln!(out, "#define FUNCTIONS(F) \\\n{}", filled(entries, 106, " \\\n"));
    out.push_str(
        "#define DECLARE(result, name, types) static result(*name) types;\n#define FIND(result, name, types) \\\n    if \
         (!(*(void **)&name = dlsym(RTLD_DEFAULT, #name))) return puts(\"skipped: there is no \" #name), 77;\n\
         FUNCTIONS(DECLARE)\n",
    );
}

/// The type of a parameter; the number of a device is a plain `int`.
fn c_type(param: &Param) -> String {
    match plain_type(param.c_type).as_str() {
        "CUdevice" => "int".to_string(),
        "CUdevice *" => "int *".to_string(),
        other => other.to_string(),
    }
}

/// Whether the parameter is declared as `void *`: a pointer to a struct, a UUID or a fixed value.
fn is_raw(param: &Param) -> bool {
    let is_pointer = param.c_type.contains('*');
    is_pointer
        && matches!(
            param.kind,
            ParamKind::In(_) | ParamKind::Out(Output::Struct(_) | Output::Uuid) | ParamKind::Fixed(_)
        )
}

enum TypeText {
    /// Another name of this type.
    Is(&'static str),
    /// A declaration.
    Whole(String),
}

/// What stands for the pointee of an opaque pointer or the value of a C type.
fn declared_type(base: &str, param: &Param, is_pointer: bool) -> TypeText {
    TypeText::Is(match param.kind {
        _ if !is_pointer && param.c_type.contains("enum ") => "int",
        _ if WIDE.contains(&base) => "unsigned long long",
        ParamKind::Dim3 if !is_pointer => {
            return TypeText::Whole("typedef struct { unsigned int x, y, z; } dim3;".to_string());
        }
        ParamKind::Location if !is_pointer => {
            return TypeText::Whole(format!("typedef struct {{ int type, id; }} {base};"));
        }
        ParamKind::Block(_, bytes) | ParamKind::Out(Output::Blob(_, bytes)) => {
            return TypeText::Whole(format!("typedef struct {{ char reserved[{bytes}]; }} {base};"));
        }
        ParamKind::Out(Output::I32) | ParamKind::I32 | ParamKind::Constant(_) | ParamKind::Pid => "int",
        ParamKind::Out(Output::U32) | ParamKind::U32 => "unsigned int",
        ParamKind::Out(Output::U64 | Output::Varying) | ParamKind::U64 => "unsigned long long",
        _ if base == "cufftHandle" => "int",
        _ => "void *",
    })
}

/// What opens a libcudart.
const CUDART: &str = r#"    const char *cudart = getenv("LIBCUDART") ?: "libcudart.so";
    (void)(OPEN(cudart) || OPEN("libcudart.so.13") || OPEN("libcudart.so.12") || OPEN("libcudart.so.11.0"));
"#;

/// The function that opens the libraries, and makes one case, or each in a process of its own.
fn main_function(program: &Reproducer<'_>) -> String {
    let mut out = String::from("\nint main(int count, char **arguments)\n{\n    setvbuf(stdout, NULL, _IONBF, 0);\n");
    out.push_str("    OPEN(\"libcuda.so.1\"), OPEN(\"libnvidia-ml.so.1\");\n");
    for (library, files) in program.libraries() {
        let tried: Vec<String> = files.iter().map(|file| format!("OPEN({})", literal(file))).collect();
        match library {
            CallLibrary::Runtime => out.push_str(CUDART),
            CallLibrary::Nvml => {}
            _ => out.push_str(&format!("    (void)({});\n", tried.join(" || "))),
        }
    }
    out.push_str("    FUNCTIONS(FIND)\n    if (count > 1)\n");
    let names: Vec<String> = program.cases.iter().map(|sequence| identifier(&sequence.case.name, &[])).collect();
    let made = match names.as_slice() {
        [trap, control] => format!("(strcmp(arguments[1], \"trap\") ? {control} : {trap})()"),
        others => format!("{}()", others.concat()),
    };
    let _ = writeln!(out, "        return {made}, failed ? 1 : asked < {} ? 77 : 0;", program.questions.len());
    if let Some(gpus) = program.gpus_to_count() {
        let _ =
            writeln!(out, "    if (gpu_count() < {gpus})\n        return puts(\"skipped: it needs {gpus} GPUs\"), 77;");
    }
    let environments: Vec<String> = program.cases.iter().map(environment).collect();
    let count = environments.len();
    let is_same = environments.iter().all(|one| Some(one) == environments.first());
    out.push_str(
        "    /* Each case in a fresh process: this program again. GPU 0 is CUDA's first and NVML's first. */\n",
    );
    let listed: Vec<String> = program
        .cases
        .iter()
        .zip(&environments)
        .map(|(sequence, environment)| {
            let name = literal(&sequence.case.name);
            if is_same { name } else { format!("{{{name}, {environment}}}") }
        })
        .collect();
    let (kind, name) = if is_same { ("*cases[]", "cases[at]") } else { ("*cases[][2]", "cases[at][0]") };
    let environment =
        if is_same { environments.first().cloned().unwrap_or_default() } else { "cases[at][1]".to_string() };
    let code = if count > 1 { "codes[0] > 1 || codes[1] != 1 ? 77 : codes[0]" } else { "codes[0] > 1 ? 77 : codes[0]" };
    let _ = write!(
        out,
        "    const char {kind} = {{{}}};\n    int codes[{count}];\n    for (int at = 0; at < {count}; at++) {{\n        char \
         command[4096];\n        snprintf(command, 4096, \"env -u CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER=PCI_BUS_ID \
         %s timeout {} '%s' %s\",\n                 {environment}, arguments[0], {name});\n        puts(command);\n        \
         codes[at] = WEXITSTATUS(system(command));\n    }}\n    int code = {code};\n    printf(\"%s (exit code %d)\\n\", code == 0 \
         ? \"It shows\" : code == 1 ? \"It does not show\" : \"It cannot be told\", code);\n    return code;\n}}\n",
        listed.join(", "),
        program.scenario.timeout_ms.div_ceil(1000),
    );
    out
}

/// The environment of a case, as `env` of a shell takes it.
fn environment(sequence: &Sequence<'_>) -> String {
    let mut all = Vec::new();
    for (name, value) in sequence.environment() {
        if !all.is_empty() {
            all.push(Piece::Said(" ".to_string()));
        }
        all.push(Piece::Said(format!("'{name}=")));
        // A shell reads it.
        all.extend(value.into_iter().map(|piece| match piece {
            Piece::Said(text) => Piece::Said(text.replace('\'', "'\\''")),
            uuid @ Piece::Uuid(_) => uuid,
        }));
        all.push(Piece::Said("'".to_string()));
    }
    let mut joined: Vec<Piece> = Vec::new();
    for piece in all {
        match (joined.last_mut(), piece) {
            (Some(Piece::Said(before)), Piece::Said(text)) => before.push_str(&text),
            (_, piece) => joined.push(piece),
        }
    }
    text(&joined)
}

fn kernels(program: &Reproducer<'_>, out: &mut String) {
    for (name, lines) in program.kernels() {
        let lines = filled(lines.map(|line| literal(&line)), 112, "\n");
        let _ = writeln!(out, "\nstatic const char kernel_{}[] =\n{lines};", identifier(name, &[]));
    }
}

fn variable(name: &str) -> String {
    identifier(name, &TAKEN)
}

fn declared(c_type: &str, name: &str) -> String {
    if c_type.ends_with('*') { format!("{c_type}{name}") } else { format!("{c_type} {name}") }
}

fn text(pieces: &[Piece]) -> String {
    let (mut form, mut uuids) = (String::new(), String::new());
    for piece in pieces {
        match piece {
            Piece::Said(text) => form.push_str(&text.replace('%', "%%")),
            Piece::Uuid(gpu) => {
                form.push_str("%s");
                let _ = write!(uuids, ", uuid_of({gpu})");
            }
        }
    }
    match pieces {
        [] => "\"\"".to_string(),
        [Piece::Said(text)] => literal(text),
        [Piece::Uuid(gpu)] => format!("uuid_of({gpu})"),
        _ => format!("format({}{uuids})", literal(&form)),
    }
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

/// The function of a case, as it is written.
struct CaseText<'p> {
    program: &'p Reproducer<'p>,
    sequence: &'p Sequence<'p>,
    /// The functions of its threads.
    functions: String,
    text: String,
    pad: usize,
    /// Variables of the function that is written, with their types.
    declared: BTreeMap<String, String>,
    /// Variables that threads share, with their types.
    of_file: BTreeMap<String, String>,
    threads: usize,
    /// Where memory stands as it was before the step.
    before: String,
}

/// What a call wrote and can be asked about.
struct Written {
    key: String,
    /// Its value in C, once the call has succeeded.
    value: String,
    kind: WrittenKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenKind {
    Number,
    Text,
    Handle,
    /// Bytes of a structure, of which the value is a part.
    Part,
}

impl<'p> CaseText<'p> {
    fn new(program: &'p Reproducer<'p>, sequence: &'p Sequence<'p>) -> CaseText<'p> {
        CaseText {
            program,
            sequence,
            functions: String::new(),
            text: String::new(),
            pad: 1,
            declared: BTreeMap::new(),
            of_file: BTreeMap::new(),
            threads: 0,
            before: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(self.pad));
    }

    fn write(&mut self) -> Done {
        let case = self.sequence.case;
        let _ = write!(self.text, "\nstatic void {}(void)\n{{\n", identifier(&case.name, &[]));
        let has_threads = self.sequence.steps.iter().any(|action| matches!(action.doing, Doing::Thread(_)));
        let mut own: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for held in &self.sequence.variables {
            let (name, c_type) = (variable(&held.name), held.c_type.clone());
            if has_threads {
                self.of_file.insert(name, c_type);
                continue;
            }
            // All of them are pointers, integers or bytes.
            own.entry(c_type.clone()).or_default().push(format!("{name} = {{0}}"));
            self.declared.insert(name, c_type);
        }
        for (c_type, names) in own {
            let between = if c_type.ends_with('*') { ", *" } else { ", " };
            self.line(&format!("{};", declared(&c_type, &names.join(between))));
        }
        let gpus = if self.program.is_counted_since(Since::Start) { self.program.gpus_read() } else { 0 };
        if gpus > 0 && has_threads {
            self.of_file.insert(format!("start[{gpus}]"), "long long".to_string());
            let all: Vec<String> = (0..gpus).map(|gpu| format!("start[{gpu}] = used({gpu})")).collect();
            self.line(&format!("{};", all.join(", ")));
        } else if gpus > 0 {
            self.line(&format!("long long start[] = {{{}}};", self.program.readings()));
        }
        if self.program.needs_cost() && has_threads {
            self.of_file.insert("cost".to_string(), "long long".to_string());
            self.line("cost = context_cost();");
        } else if self.program.needs_cost() {
            self.line("long long cost = context_cost();");
        }
        for action in &self.sequence.steps {
            self.step(action)?;
        }
        self.text.push_str("}\n");
        Ok(())
    }

    /// A fresh name for a variable, and the line that declares it.
    fn declare(&mut self, c_type: &str, name: &str, array: &str, value: &str) -> String {
        let mut own = name.to_string();
        let mut count = 1;
        while self.of_file.contains_key(&own)
            || self.declared.get(&own).is_some_and(|it| it != c_type || !array.is_empty())
        {
            count += 1;
            own = format!("{name}_{count}");
        }
        if self.declared.insert(own.clone(), c_type.to_string()).is_some() {
            self.line(&format!("{own} = {value};"));
        } else {
            self.line(&format!("{}{array} = {value};", declared(c_type, &own)));
        }
        own
    }

    fn step(&mut self, action: &Action<'_>) -> Done {
        let label = action.label;
        let program = self.program;
        let questions = program.questions_at(label);
        if questions.iter().any(|it| matches!(it, EffectQuestion::Memory { since: Since::Step, .. })) {
            self.before = self.declare("long long", "before", "[]", &format!("{{{}}}", program.readings()));
        }
        let said = action.remark().map(|label| format!(" /* {} */", comment(label))).unwrap_or_default();
        match &action.doing {
            Doing::Call { .. } => self.call(action, &questions, &said)?,
            Doing::Line { .. } => {}
            Doing::Nothing(why) => self.line(&format!("/* {}: {why} */", comment(label))),
            Doing::Getenv { name } => {
                let own = self.declare("const char *", "value", "", &format!("getenv({})", literal(name)));
                self.line(&format!("if ({own}){said}"));
                self.block(&[Written { key: "value".into(), value: own, kind: WrittenKind::Text }], label, &questions)?;
            }
            Doing::Getpid => {
                let name = variable(&format!("{label}_pid"));
                self.declare("long long", &name, "", "getpid()");
                self.line(&format!("SHOW({name});"));
            }
            Doing::Sleep { milliseconds } => self.line(&format!("usleep({milliseconds} * 1000);{said}")),
            Doing::Memset { variable: name, value, bytes } => {
                self.line(&format!("memset((void *)(uintptr_t){}, {value}, {});{said}", variable(name), size(*bytes)));
            }
            Doing::Open { file } => self.line(&format!("CALL(dlopen({}, RTLD_NOW) == NULL);{said}", literal(file))),
            Doing::MaxRss if questions.is_empty() => self.line(&format!("/* {}: not read here */", comment(label))),
            Doing::MaxRss => {
                self.line("struct rusage usage;");
                self.line(&format!("getrusage(RUSAGE_SELF, &usage);{said}"));
                let value = "(long long)usage.ru_maxrss * 1024".into();
                self.told(
                    &[Written { key: "max_rss_bytes".into(), value, kind: WrittenKind::Part }],
                    label,
                    &questions,
                )?;
            }
            Doing::Fork(steps, end) => self.fork(steps, end)?,
            Doing::Thread(steps) => self.thread(steps)?,
        }
        self.expect_rest(&questions)
    }

    fn fork(&mut self, steps: &[Action<'_>], end: &str) -> Done {
        let program = self.program;
        let child = self.declare("pid_t", "child", "", "fork()");
        self.line(&format!("if ({child} == 0) {{"));
        let before = self.declared.clone();
        self.pad += 1;
        for action in steps {
            self.step(action)?;
        }
        let own = program.count_asked(steps);
        self.line(if own > 0 { "_exit(failed != 0);" } else { "_exit(0);" });
        self.pad -= 1;
        self.declared = before;
        self.line("}");
        let questions = program.questions_at(end);
        let is_asked = questions.iter().any(|question| matches!(question, EffectQuestion::Value { .. }));
        if own == 0 && !is_asked {
            self.line(&format!("waitpid({child}, NULL, 0);"));
            return self.expect_rest(&questions);
        }
        let ended = self.declare("int", "ended", "", "0");
        self.line(&format!("waitpid({child}, &{ended}, 0);"));
        if own > 0 {
            self.line(&format!("asked += WIFEXITED({ended}) && WEXITSTATUS({ended}) < 2 ? {own} : 0;"));
            self.line(&format!("failed += WIFEXITED({ended}) && WEXITSTATUS({ended}) == 1;"));
        }
        if is_asked {
            let exited = format!("(WIFEXITED({ended}) ? WEXITSTATUS({ended}) : -1)");
            let written = [("code", exited), ("signal", format!("(WIFSIGNALED({ended}) ? WTERMSIG({ended}) : 0)"))];
            let written = written.map(|(key, value)| Written { key: key.into(), value, kind: WrittenKind::Part });
            self.told(&written, end, &questions)?;
        }
        self.expect_rest(&questions)
    }

    fn thread(&mut self, steps: &[Action<'_>]) -> Done {
        self.threads += 1;
        let name = format!("{}_thread_{}", identifier(&self.sequence.case.name, &[]), self.threads);
        let (text, declared, pad) = (std::mem::take(&mut self.text), std::mem::take(&mut self.declared), self.pad);
        self.pad = 1;
        for action in steps {
            self.step(action)?;
        }
        let own = std::mem::replace(&mut self.text, text);
        (self.declared, self.pad) = (declared, pad);
        let _ = write!(self.functions, "\nstatic void *{name}(void *unused)\n{{\n{own}    return unused;\n}}\n");
        self.line(&format!("IN_A_THREAD({name});"));
        Ok(())
    }

    fn call(&mut self, action: &Action<'_>, questions: Questions<'_>, said: &str) -> Done {
        let Some((call, arguments)) = action.call() else { return Ok(()) };
        let label = action.label;
        let (made, written) = self.called(action, call, arguments);
        if call.returns == Returns::Text {
            let text = self.declare("const char *", "text", "", &made);
            let written = [Written { key: calls::RETURNED_TEXT.into(), value: text, kind: WrittenKind::Text }];
            return self.told(&written, label, questions);
        }
        if call.library == CallLibrary::Libc && questions.is_empty() {
            self.line(&format!("{made};{said}"));
            return Ok(());
        }
        let made = if call.library == CallLibrary::Libc { format!("{made} == 0 ? 0 : errno") } else { made };
        let written: Vec<Written> =
            written.into_iter().filter(|written| self.program.is_wanted(label, &written.key)).collect();
        let names = questions
            .iter()
            .find_map(|it| if let EffectQuestion::Status { names, .. } = it { Some(names) } else { None });
        let status = match names {
            Some(_) => self.declare("int", "result", "", &format!("CALL({made})")),
            None => format!("CALL({made})"),
        };
        match (names, written.is_empty()) {
            (None, true) => self.line(&format!("{status};{said}")),
            (Some(_), true) => {}
            (_, false) => {
                self.line(&format!("if ({status} == 0){said}"));
                self.block(&written, label, questions)?;
            }
        }
        for question in questions {
            if let EffectQuestion::Status { names, .. } = question {
                let condition = NOTATION.status(call.library, &status, names)?;
                self.expect(question, &condition);
            }
        }
        Ok(())
    }

    /// The call, behind the declarations of what it writes.
    fn called(&mut self, action: &Action<'_>, call: &'static Call, arguments: &[Argument]) -> (String, Vec<Written>) {
        let (mut passed, mut written) = (Vec::new(), Vec::new());
        for (param, argument) in call.params.iter().zip(arguments) {
            if param.c_type.is_empty() {
                continue;
            }
            let c_type = c_type(param);
            let is_pointer = c_type.contains('*');
            passed.push(match argument {
                Argument::Number(Number::Int(0)) if is_pointer => "NULL".to_string(),
                Argument::Number(value) if is_pointer => format!("(void *)(uintptr_t){}", number(value)),
                Argument::Number(Number::Int(value)) if matches!(param.kind, ParamKind::Bytes) => size(*value),
                Argument::Number(value) => number(value),
                Argument::Text(of) => text(of),
                Argument::Variable(name) => {
                    let own =
                        self.sequence.variables.iter().find(|held| held.name == *name).map(|held| held.c_type.as_str());
                    let plain = c_type.replace("const ", "");
                    if own == Some(plain.as_str()) || own == Some(c_type.as_str()) {
                        variable(name)
                    } else {
                        format!("({plain})(uintptr_t){}", variable(name))
                    }
                }
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
                    format!("(void *[]){{{}}}", all.join(", "))
                }
                Argument::Dim3(x, z) => format!("(dim3){{{x}, 1, {z}}}"),
                Argument::Location { host: true, .. } => format!("({c_type}){{2, 0}}"),
                Argument::Location { device, .. } => format!("({c_type}){{1, {}}}", number(device)),
                Argument::Struct { template, given } => self.structure(param, template, given),
                Argument::Out(output) => self.out(action, param, &c_type, *output, &mut written),
                Argument::Rest => continue,
            });
        }
        (format!("{}({})", call.name, passed.join(", ")), written)
    }

    /// A struct that is passed, with its declaration and members.
    fn structure(&mut self, param: &Param, template: &calls::InputStruct, given: &Number) -> String {
        let array = format!("[{}]", template.size.div_ceil(8));
        let name = self.declare("uint64_t", &variable(param.name), &array, "{0}");
        for word in &template.preset {
            self.line(&format!(
                "{}; /* {} */",
                word_put(&name, word.offset, &word.value.to_string()),
                comment(word.member)
            ));
        }
        let given = word_put(&name, template.given, &number(given));
        self.line(&format!("{given}; /* {} */", comment(template.member)));
        name
    }

    /// The argument for an output of the call.
    fn out(
        &mut self,
        action: &Action<'_>,
        param: &Param,
        c_type: &str,
        output: Output,
        written: &mut Vec<Written>,
    ) -> String {
        let key = param.name.to_string();
        let name = if self.program.is_compared(action.label, &key) {
            variable(&format!("{}_{key}", action.label))
        } else {
            variable(&key)
        };
        let simple = match output {
            Output::I32 => Some("int"),
            Output::U32 => Some("unsigned int"),
            Output::F32 => Some("float"),
            Output::U64 | Output::Varying if c_type == "size_t *" => Some("size_t"),
            Output::Varying if c_type == "int *" => Some("int"),
            Output::U64 | Output::Varying => Some("unsigned long long"),
            Output::Word(_) if action.bind.is_none() => Some("unsigned long long"),
            _ => None,
        };
        if let Some(own) = simple {
            let name = self.declare(own, &name, "", "0");
            let is_same = c_type.replace(' ', "") == format!("{own}*").replace(' ', "");
            written.push(Written { key, value: name.clone(), kind: WrittenKind::Number });
            return if is_same { format!("&{name}") } else { format!("(void *)&{name}") };
        }
        match (output, action.bind) {
            (Output::Uuid, _) => {
                let name = self.declare("unsigned char", &name, "[16]", "{0}");
                written.push(Written { key, value: format!("uuid_text({name})"), kind: WrittenKind::Text });
                name
            }
            (Output::Text(bytes), _) => {
                let name = self.declare("char", &name, &format!("[{bytes}]"), "\"\"");
                written.push(Written { key, value: name.clone(), kind: WrittenKind::Text });
                name
            }
            (Output::Struct(layout), _) => {
                let first = layout.preset.iter().find(|word| word.offset == 0);
                let value = first.map_or_else(|| "{0}".to_string(), |word| format!("{{{:#x}}}", word.value));
                let name = self.declare("uint64_t", &name, &format!("[{}]", layout.size.div_ceil(8)), &value);
                for word in layout.preset.iter().filter(|word| word.offset != 0) {
                    self.line(&format!("{};", word_put(&name, word.offset, &format!("{:#x}", word.value))));
                }
                for field in &layout.fields {
                    let (value, kind) = match field.read {
                        FieldType::I32 if field.offset % 8 == 4 => {
                            (format!("(int)({name}[{}] >> 32)", field.offset / 8), WrittenKind::Part)
                        }
                        FieldType::I32 => (format!("(int){name}[{}]", field.offset / 8), WrittenKind::Part),
                        FieldType::U64 => (format!("{name}[{}]", field.offset / 8), WrittenKind::Part),
                        FieldType::Text(_) => (format!("(char *){name} + {}", field.offset), WrittenKind::Text),
                    };
                    let is_compared = self.program.is_compared(action.label, field.name);
                    written.push(Written { key: field.name.to_string(), value, kind });
                    if is_compared {
                        let own = variable(&format!("{}_{}", action.label, field.name));
                        self.declare("long long", &own, "", "0");
                    }
                }
                name
            }
            (_, Some(bound)) => {
                let held = self.sequence.variables.iter().find(|held| held.name == bound);
                let own = held.map(|held| held.c_type.clone()).unwrap_or_default();
                let bound = variable(bound);
                if !matches!(output, Output::Blob(..)) {
                    written.push(Written { key, value: bound.clone(), kind: WrittenKind::Handle });
                }
                let is_same = c_type.replace(' ', "") == format!("{own}*").replace(' ', "");
                if is_same { format!("&{bound}") } else { format!("(void *)&{bound}") }
            }
            (Output::Blob(_, bytes), None) => {
                let name = self.declare("unsigned char", &name, &format!("[{bytes}]"), "{0}");
                format!("(void *){name}")
            }
            (_, None) => {
                let name = self.declare("void *", &name, "", "NULL");
                written.push(Written { key, value: name.clone(), kind: WrittenKind::Handle });
                format!("(void *)&{name}")
            }
        }
    }

    /// What is told of what was written, in a block if it is more than one statement.
    fn block(&mut self, written: &[Written], label: &str, questions: Questions<'_>) -> Done {
        let before = self.text.clone();
        self.pad += 1;
        self.told(written, label, questions)?;
        self.pad -= 1;
        let own = self.text.split_off(before.len());
        if own.matches(";\n").count() > 1 {
            let head = self.text.trim_end().to_string();
            self.text = format!("{head} {{\n{own}");
            self.line("}");
        } else {
            self.text.push_str(&own);
        }
        Ok(())
    }

    /// Prints what was written, and asks what is asked about it.
    fn told(&mut self, written: &[Written], label: &str, questions: Questions<'_>) -> Done {
        for Written { key, value, kind } in written {
            let asked: Vec<_> = questions
                .iter()
                .filter_map(|it| match it {
                    EffectQuestion::Value { name, sign, operand, .. } if name == key => Some((*it, *sign, *operand)),
                    _ => None,
                })
                .collect();
            let is_compared = self.program.is_compared(label, key);
            let mut value = value.clone();
            if is_compared && *kind == WrittenKind::Part {
                let own = variable(&format!("{label}_{key}"));
                self.line(&format!("{own} = {value};"));
                value = own;
            }
            let shown = match kind {
                WrittenKind::Text => format!("SHOW_TEXT({value})"),
                WrittenKind::Number | WrittenKind::Part => format!("SHOW({value})"),
                WrittenKind::Handle => value.clone(),
            };
            if asked.is_empty() && is_compared {
                self.line(&format!("{shown};"));
            }
            for (question, sign, operand) in asked {
                let condition = value_condition(&shown, *kind, sign, operand)?;
                self.expect(question, &condition);
            }
        }
        Ok(())
    }

    /// The questions of a step that are about the state of the driver and about memory.
    fn expect_rest(&mut self, questions: Questions<'_>) -> Done {
        for question in questions {
            let condition = match question {
                EffectQuestion::Status { .. } | EffectQuestion::Value { .. } => continue,
                EffectQuestion::Visible { gpus: GpuSet::All, .. } => "DEVICES == gpu_count()".to_string(),
                EffectQuestion::Visible { gpus: GpuSet::These(gpus) | GpuSet::Others(gpus), .. } => {
                    let count =
                        if gpus.is_empty() { "DEVICES <= 0".to_string() } else { format!("DEVICES == {}", gpus.len()) };
                    let each = gpus.iter().enumerate().map(|(device, gpu)| format!("is_gpu({device}, {gpu})"));
                    [count].into_iter().chain(each).collect::<Vec<_>>().join(" && ")
                }
                EffectQuestion::Current { gpu, .. } => {
                    format!("CURRENT == {}", gpu.map_or_else(|| "-1".to_string(), |gpu| gpu.to_string()))
                }
                EffectQuestion::Initialised { yes, .. } => {
                    format!("DEVICES {} -1", if *yes { "!=" } else { "==" })
                }
                EffectQuestion::Contexts { .. } | EffectQuestion::Memory { .. } => {
                    NOTATION.memory(self.program, question, &self.before)
                }
            };
            self.expect(question, &condition);
        }
        Ok(())
    }

    fn expect(&mut self, question: &EffectQuestion<'_>, condition: &str) {
        self.line(&asked("EXPECT", condition, &literal(&question.words()), ";", self.pad));
    }
}

fn value_condition(value: &str, kind: WrittenKind, sign: &str, operand: &Operand) -> Result<String, Refusal> {
    let number = |other: String| match kind {
        WrittenKind::Text => format!("atoll({value}) {sign} {other}"),
        _ => format!("{value} {sign} {other}"),
    };
    Ok(match operand {
        Operand::Int(other) => number(other.to_string()),
        Operand::Text(text) if text == "${gpus}" => number("gpu_count()".to_string()),
        Operand::Value { label, name } => number(format!("(long long){}", variable(&format!("{label}_{name}")))),
        Operand::Text(text) if kind == WrittenKind::Handle && matches!(text.as_str(), "bound" | "NULL") => {
            let is_null = (text == "NULL") == (sign == "==");
            format!("{value} {} 0", if is_null { "==" } else { "!=" })
        }
        Operand::Text(text) if kind == WrittenKind::Text && matches!(sign, "==" | "!=") => {
            let other = gpu_named(text).map_or_else(|| literal(text), |gpu| format!("uuid_of({gpu})"));
            format!("strcmp({value}, {other}) {sign} 0")
        }
        Operand::Text(text) => return Err(Refusal(format!("its effect compares a number with `{text}`"))),
    })
}

const NOTATION: Notation = Notation {
    and: " && ",
    or: " || ",
    never: "0",
    enough: "cost * 5 / 4",
    size: |bytes| if bytes < 0 { format!("-({})", size(-bytes)) } else { size(bytes) },
    between: |more, least, most| format!("{more} >= {least} && {more} <= {most}"),
};

/// A word of a structure is set.
fn word_put(name: &str, offset: usize, value: &str) -> String {
    let shift = if offset % 8 == 4 { " << 32" } else { "" };
    format!("{name}[{}] |= (uint64_t){value}{shift}", offset / 8)
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
        assert_eq!(["default", "2nd", "a-b", "memory"].map(variable), ["default_", "_2nd", "a_b", "memory"]);
    }
}
