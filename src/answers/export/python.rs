//! A reproducer in Python: calls by ctypes, or the lines of a case of Python lines as they are.

use std::collections::BTreeSet;
use std::fmt::Write;

use cuda_pitfalls_calls::{Call, CallLibrary, FieldType, Layout, Output, Param, ParamKind, Returns};

use super::Language;
use super::effect::{EffectQuestion, GpuSet, Notation, Questions, Since, asked, gpu_named};
use super::lines::{indented, last_expression};
use super::program::{
    Action, Argument, Doing, Done, Number, Piece, Refusal, Reproducer, Sequence, filled, identifier, is_used,
    plain_type, used_helpers,
};
use cuda_pitfalls_core::scenario::Operand;
use cuda_pitfalls_core::text::escape::visible;

/// Names that a variable must not take: keywords, and what this file defines or uses.
const TAKEN: [&str; 73] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
    "return", "try", "while", "with", "yield", "cuda", "cudart", "nvml", "nvrtc", "cublas", "cufft", "nccl", "libc",
    "bytes", "bool", "dict", "int", "float", "len", "list", "map", "max", "min", "open", "print", "range", "repr",
    "str", "type", "zip", "case", "call", "show", "known", "expect", "load", "used", "start", "before", "cost",
    "answers", "name", "result", "raised", "code", "os",
];

/// Functions that stand in a file if something in it uses them.
const HELPERS: &str = include_str!("helpers.py");

/// The whole file.
pub(super) fn file(program: &Reproducer<'_>) -> Result<String, Refusal> {
    let mut cases = String::new();
    for sequence in &program.cases {
        let mut case = CaseText { program, sequence, text: String::new(), pad: 1 };
        case.write()?;
        cases.push_str(&case.text);
    }
    let body = format!("{}{cases}", first_process(program));
    let helpers = used_helpers(HELPERS, &body, "\n\n") + "\n\nanswers = []\n";
    let all = format!("{helpers}{body}");
    let mut out = header(program);
    for module in ["ctypes", "mmap", "os", "re", "resource", "subprocess", "sys", "time"] {
        if is_used(&all, &format!("{module}.")) {
            let _ = writeln!(out, "import {module}");
        }
    }
    let of_ctypes = [
        "byref",
        "c_char_p",
        "c_float",
        "c_int",
        "c_size_t",
        "c_ubyte",
        "c_uint",
        "c_uint64",
        "c_ulonglong",
        "c_void_p",
        "create_string_buffer",
    ];
    if all.contains("ThreadPoolExecutor(") {
        out.push_str("from concurrent.futures import ThreadPoolExecutor\n");
    }
    let imported: Vec<&str> = of_ctypes.into_iter().filter(|name| is_word(&all, name)).collect();
    if !imported.is_empty() {
        let _ = writeln!(out, "from ctypes import {}", imported.join(", "));
    }
    for (name, value) in [
        ("CONTEXT", "64 << 20  # a context takes more, cuInit less"),
        (
            "CUDART",
            "os.environ.get(\"LIBCUDART\", \"libcudart.so libcudart.so.13 libcudart.so.12 libcudart.so.11.0\").split()\n\
             PIP = [\"cu13/lib/libcudart.so.13\", \"cuda_runtime/lib/libcudart.so.12\"]  # where its packages have one\n\
             CUDART += [folder + \"/nvidia/\" + name for folder in sys.path for name in PIP]",
        ),
        ("NOISE", "2 << 20  # a driver takes memory in blocks of 2 MiB"),
    ] {
        if is_word(&all, name) {
            let gap = if out.contains(" = ") { "" } else { "\n" };
            let _ = writeln!(out, "{gap}{name} = {value}");
        }
    }
    out.push_str(&helpers);
    for (name, lines) in program.kernels() {
        let name = variable(name).to_ascii_uppercase();
        let lines = lines.map(|line| bytes_literal(&line));
        let _ = write!(out, "\nKERNEL_{name} = (\n{}\n)\n", filled(lines, 112, "\n"));
    }
    out.push_str(&body);
    // A case that there is not must not end with 0.
    out.push_str("assert case is None, \"there is no case \" + case\n");
    Ok(out)
}

/// Whether a text has this name as a word of its own.
fn is_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = text.split_at(at);
        !before.ends_with(is_part) && !behind.get(name.len()..).unwrap_or_default().starts_with(is_part)
    })
}

/// A Python string. Text of JSON is one too.
fn literal(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A Python literal of bytes: the text in UTF-8. Only ASCII may stand in one.
fn bytes_literal(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b'\n' => "\\n".to_string(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("b\"{}\"", escaped.collect::<String>())
}

fn header(program: &Reproducer<'_>) -> String {
    let pythons = program.cases.iter().filter_map(|sequence| sequence.case.python.as_ref());
    let packages: BTreeSet<&str> = pythons.flat_map(|python| &python.needs).map(String::as_str).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    let needs = if packages.is_empty() { String::new() } else { format!(" It needs {}.", packages.join(", ")) };
    let commands = Language::Python.commands(&program.stem).join(" && ");
    let lines = program.header(&format!("{commands}; echo $?"), &needs).into_iter();
    let lines: Vec<String> = lines.map(|line| visible(&line).replace('\\', "\\\\").replace("\"\"\"", "'''")).collect();
    format!("#!/usr/bin/env python3\n\"\"\"{}\n\"\"\"\n", lines.join("\n"))
}

/// What the first process does: it makes each case in a fresh process, and ends.
fn first_process(program: &Reproducer<'_>) -> String {
    let mut text = String::from(
        "# Each case in a fresh process: this program again. GPU 0 is CUDA's first and NVML's first.\n\
         case = (sys.argv[1:] or [\"all\"])[0] if __name__ == \"__main__\" else None\nif case == \"all\":\n",
    );
    if let Some(gpus) = program.gpus_to_count() {
        let _ = write!(
            text,
            "    if gpu_count() < {gpus}:\n        print(\"skipped: it needs {gpus} GPUs\")\n        sys.exit(77)\n"
        );
    }
    text.push_str(
        "    inherited = {name: value for name, value in os.environ.items() if not name.startswith(\"CUDA_\")}\n    \
         codes = []\n",
    );
    let listed: Vec<String> = program
        .cases
        .iter()
        .map(|sequence| {
            let own = sequence.environment();
            let own: Vec<String> =
                own.iter().map(|(name, value)| format!("{}: {}", literal(name), self::text(value))).collect();
            format!("({}, {{{}}})", literal(&sequence.case.name), own.join(", "))
        })
        .collect();
    let code = if listed.len() > 1 { "codes[0] not in (0, 1) or codes[1] != 1" } else { "codes[0] not in (0, 1)" };
    let _ = write!(
        text,
        "    for name, own in [{}]:\n        print(name, own)\n        command = [\"timeout\", \"{}\", sys.executable, __file__, \
         name]\n        codes.append(subprocess.run(command, env={{**inherited, \"CUDA_DEVICE_ORDER\": \"PCI_BUS_ID\", **own}}).returncode)\n    code = 77 if {code} else \
         codes[0]\n    print([\"It shows\", \"It does not show\", \"It cannot be told\"][min(code, 2)], \"(exit code %d)\" % code)\n    \
         sys.exit(code)\nsys.stdout.reconfigure(line_buffering=True)\n\
         sys.excepthook = lambda *error: (sys.__excepthook__(*error), os._exit(77))  # Python's own code would be 1\n",
        listed.join(", "),
        program.scenario.timeout_ms.div_ceil(1000),
    );
    text
}

/// The variable that holds a library.
fn object(library: CallLibrary) -> &'static str {
    match library {
        CallLibrary::Driver => "cuda",
        CallLibrary::Runtime => "cudart",
        CallLibrary::Nvml => "nvml",
        CallLibrary::Nvrtc => "nvrtc",
        CallLibrary::Cublas => "cublas",
        CallLibrary::Cufft => "cufft",
        CallLibrary::Nccl => "nccl",
        CallLibrary::Libc | CallLibrary::Harness => "libc",
    }
}

fn variable(name: &str) -> String {
    identifier(name, &TAKEN)
}

fn text(pieces: &[Piece]) -> String {
    let parts = pieces.iter().map(|piece| match piece {
        Piece::Said(text) => literal(text),
        Piece::Uuid(gpu) => format!("uuid_of({gpu})"),
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { literal("") } else { parts.join(" + ") }
}

fn encoded(pieces: &[Piece]) -> String {
    match pieces {
        [] => "b\"\"".to_string(),
        [Piece::Said(text)] => bytes_literal(text),
        [Piece::Uuid(gpu)] => format!("uuid_of({gpu}).encode()"),
        all => format!("({}).encode()", text(all)),
    }
}

fn number(number: &Number) -> String {
    match number {
        Number::Int(value) | Number::Named(_, value) => value.to_string(),
        Number::Gpus => "gpu_count()".to_string(),
    }
}

/// The number as a value of the parameter's C type.
fn typed(param: &Param, c_type: &str, value: &Number) -> String {
    let of = match param.kind {
        ParamKind::Bytes => "c_size_t",
        ParamKind::U64 => "c_ulonglong",
        // What ctypes passes for a small number of Python.
        ParamKind::U32 | ParamKind::I32 | ParamKind::Constant(_) | ParamKind::Pid => "",
        _ if c_type.contains('*') => "c_void_p",
        _ if matches!(c_type, "int" | "unsigned int") => "",
        _ => "c_size_t",
    };
    if of.is_empty() { number(value) } else { format!("{of}({})", number(value)) }
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

/// What a call wrote and can be asked about: its name, and its value in Python.
struct Written {
    key: String,
    value: String,
    is_handle: bool,
}

/// The lines of a case.
struct CaseText<'p> {
    program: &'p Reproducer<'p>,
    sequence: &'p Sequence<'p>,
    text: String,
    pad: usize,
}

impl<'p> CaseText<'p> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(self.pad));
    }

    fn write(&mut self) -> Done {
        let case = self.sequence.case;
        let _ = write!(self.text, "\nif case == {}:\n", literal(&case.name));
        if !self.program.is_of_lines() {
            self.libraries();
        }
        for held in &self.sequence.variables {
            let is_block = self.is_block(&held.name);
            self.line(&format!("{} = {}()", variable(&held.name), if is_block { "Block64" } else { "c_void_p" }));
        }
        let gpus = if self.program.is_counted_since(Since::Start) { self.program.gpus_read() } else { 0 };
        if gpus > 0 {
            self.line(&format!("start = [{}]", self.program.readings()));
        }
        if self.program.needs_cost() {
            self.line("cost = context_cost()");
        }
        self.steps(&self.sequence.steps)?;
        self.line(&format!(
            "sys.exit(1 if not all(answers) else 0 if len(answers) == {} else 77)",
            self.program.questions.len()
        ));
        Ok(())
    }

    /// Whether a step binds bytes, such as an IPC handle, to this name.
    fn is_block(&self, name: &str) -> bool {
        self.program.actions().into_iter().any(|action| {
            action.bind == Some(name)
                && action.call().is_some_and(|(call, _)| {
                    call.params.iter().any(|param| matches!(param.kind, ParamKind::Out(Output::Blob(..))))
                })
        })
    }

    fn libraries(&mut self) {
        self.line("cuda = load(\"libcuda.so.1\")");
        for (library, files) in self.program.libraries() {
            let files: Vec<String> = files.iter().map(|file| literal(file)).collect();
            let files = if files.is_empty() { "*CUDART".to_string() } else { files.join(", ") };
            self.line(&format!("{} = load({files})", object(library)));
        }
        for call in self.program.calls().iter().filter(|call| call.returns == Returns::Text) {
            self.line(&format!("{}.{}.restype = c_char_p", object(call.library), call.name));
        }
    }

    fn steps(&mut self, steps: &[Action<'_>]) -> Done {
        steps.iter().try_for_each(|action| self.step(action))
    }

    fn step(&mut self, action: &Action<'_>) -> Done {
        let label = action.label;
        let program = self.program;
        let questions = program.questions_at(label);
        if questions.iter().any(|it| matches!(it, EffectQuestion::Memory { since: Since::Step, .. })) {
            self.line(&format!("before = [{}]", program.readings()));
        }
        let said = action.remark().map(|label| format!("  # {}", visible(label))).unwrap_or_default();
        match &action.doing {
            Doing::Line { text, value, may_raise } => self.python(label, text, *value, *may_raise, &questions)?,
            Doing::Call { call, arguments } if call.library == CallLibrary::Libc => {
                let texts =
                    arguments.iter().filter_map(|it| if let Argument::Text(of) = it { Some(text(of)) } else { None });
                self.libc(action, &texts.collect::<Vec<_>>(), &questions, &said)?;
            }
            Doing::Call { .. } => self.call(action, &questions, &said)?,
            Doing::Nothing(why) => self.line(&format!("# {}: {why}", visible(label))),
            Doing::Getenv { name } => {
                self.line("libc = ctypes.CDLL(None)");
                self.line("libc.getenv.restype = c_char_p");
                self.line(&format!("value = libc.getenv({}){said}", bytes_literal(name)));
                self.line("if value is not None:");
                let written = Written { key: "value".into(), value: "value.decode()".into(), is_handle: false };
                self.told(&[written], label, &questions)?;
            }
            Doing::Getpid => self.line(&format!("{} = os.getpid(){said}", variable(&format!("{label}_pid")))),
            Doing::Sleep { milliseconds } => self.line(&format!("time.sleep({milliseconds} / 1000){said}")),
            Doing::Memset { variable: held, value, bytes } => {
                self.line(&format!("ctypes.memset({}.value, {value}, {bytes}){said}", variable(held)));
            }
            Doing::Open { file } => {
                self.line(&format!("call(\"dlopen\", dlopen({})){said}", literal(file)));
            }
            Doing::MaxRss => {
                self.line(&format!("usage = resource.getrusage(resource.RUSAGE_SELF){said}"));
                let value = "usage.ru_maxrss * 1024".into();
                let written = Written { key: "max_rss_bytes".into(), value, is_handle: false };
                self.told_inside(&[written], label, &questions)?;
            }
            Doing::Fork(steps, end) => {
                self.line("child = os.fork()");
                self.line("if child == 0:");
                self.pad += 1;
                self.steps(steps)?;
                let own = program.count_asked(steps);
                self.line(if own > 0 { "os._exit(0 if all(answers) else 1)" } else { "os._exit(0)" });
                self.pad -= 1;
                self.line("ended = os.waitpid(child, 0)[1]");
                if own > 0 {
                    self.line(&format!(
                        "answers += [ended == 0] * ({own} if ended in (0, 1 << 8) else 0)  # it exited with 0 or 1"
                    ));
                }
                let questions = program.questions_at(end);
                let written = [
                    ("code", "(-1 if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended))"),
                    ("signal", "(os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0)"),
                ];
                let written = written.into_iter().filter(|(key, _)| program.is_wanted(end, key));
                let written: Vec<Written> = written
                    .map(|(key, value)| Written { key: key.into(), value: value.into(), is_handle: false })
                    .collect();
                self.told_inside(&written, end, &questions)?;
                self.expect_rest(&questions);
            }
            Doing::Thread(steps) => {
                self.line("def work():");
                self.pad += 1;
                let before = self.text.len();
                self.steps(steps)?;
                let own = self.text.get(before..).unwrap_or_default();
                if own.lines().all(|line| line.trim_start().starts_with('#')) {
                    self.line("pass");
                }
                self.pad -= 1;
                self.line("with ThreadPoolExecutor(1) as thread:");
                self.line("    thread.submit(work).result()");
            }
        }
        self.expect_rest(&questions);
        Ok(())
    }

    /// A line of a framework. Where it may raise, the case goes on behind it.
    fn python(
        &mut self,
        label: &str,
        code: &str,
        value: Option<&str>,
        may_raise: bool,
        questions: Questions<'_>,
    ) -> Done {
        let names = questions
            .iter()
            .find_map(|it| if let EffectQuestion::Status { names, .. } = it { Some(names) } else { None });
        let is_asked = questions
            .iter()
            .any(|question| !matches!(question, EffectQuestion::Memory { .. } | EffectQuestion::Contexts { .. }));
        let is_tried = names.is_some() || may_raise || is_asked && value.is_none();
        let (before, last) = if value.is_some() { last_expression(code) } else { (code, "") };
        let mut whole = before.trim_end().to_string();
        if value.is_some() {
            let gap = if whole.trim().is_empty() { "" } else { "\n" };
            whole = format!("{}{gap}seen = {}", whole.trim_end(), last.trim());
        }
        if is_tried {
            self.line("raised, message = \"OK\", None");
            self.line("try:");
        }
        let pad = "    ".repeat(self.pad + usize::from(is_tried));
        let _ = writeln!(self.text, "{}", indented(&whole, &pad));
        if is_tried {
            self.line("except Exception as error:");
            self.line("    raised, message = type(error).__name__, str(error).split(\"\\n\")[0]");
            self.line("    print(\"   \", raised, message)");
        }
        if let Some(name) = value {
            if is_tried {
                self.line("if raised == \"OK\":");
                self.pad += 1;
            }
            self.line(&format!("print({}, seen)", literal(&format!("    {name} ="))));
            if self.program.is_compared(label, name) {
                self.line(&format!("{} = known(seen)", variable(&format!("{label}_{name}"))));
            }
            self.ask(name, "known(seen)", false, questions)?;
            if is_tried {
                self.pad -= 1;
            }
        }
        if questions.iter().any(|it| matches!(it, EffectQuestion::Value { name: "message", .. })) {
            self.line("if message is not None:");
            self.pad += 1;
            self.ask("message", "message", false, questions)?;
            self.pad -= 1;
        }
        for question in questions {
            if let EffectQuestion::Status { names, .. } = question {
                let all: Vec<String> = names.iter().map(|name| format!("raised == {}", literal(name))).collect();
                self.expect(question, &all.join(" or "));
            }
        }
        Ok(())
    }

    /// A call of the C library to which these texts are passed. The environment of Python is that of C.
    fn libc(&mut self, action: &Action<'_>, texts: &[String], questions: Questions<'_>, said: &str) -> Done {
        let called = action.call().map_or("", |(call, _)| call.name);
        let is_asked = questions.iter().any(|question| matches!(question, EffectQuestion::Status { .. }));
        match (called, texts) {
            ("setenv", [name, value]) if !is_asked => self.line(&format!("os.environ[{name}] = {value}{said}")),
            ("unsetenv", [name]) if !is_asked => self.line(&format!("os.environ.pop({name}, None){said}")),
            _ => {
                self.line("libc = ctypes.CDLL(None)");
                self.call(action, questions, said)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, action: &Action<'_>, questions: Questions<'_>, said: &str) -> Done {
        let Some((call, arguments)) = action.call() else { return Ok(()) };
        let label = action.label;
        let (made, written, names) = self.called(action, call, arguments);
        let behind = match (names.is_empty(), said.is_empty()) {
            (true, _) => said.to_string(),
            (false, true) => format!("  # {}", names.join(", ")),
            (false, false) => format!("{said}: {}", names.join(", ")),
        };
        if call.returns == Returns::Text {
            self.line(&format!("text = {made}{behind}"));
            let value = "(text or b\"NULL\").decode()".into();
            let written = [Written { key: cuda_pitfalls_calls::RETURNED_TEXT.into(), value, is_handle: false }];
            return self.told_inside(&written, label, questions);
        }
        let written: Vec<Written> =
            written.into_iter().filter(|written| self.program.is_wanted(label, &written.key)).collect();
        let whole = format!("call({}, {made})", literal(call.name));
        let statuses = questions.iter().find(|it| matches!(it, EffectQuestion::Status { .. }));
        match (statuses, written.is_empty()) {
            (None, true) => self.line(&format!("{whole}{behind}")),
            (None, false) => {
                self.line(&format!("if {whole} == 0:{behind}"));
                self.told(&written, label, questions)?;
            }
            (Some(_), is_alone) => {
                self.line(&format!("result = {whole}{behind}"));
                if !is_alone {
                    self.line("if result == 0:");
                    self.told(&written, label, questions)?;
                }
            }
        }
        if let Some(question) = statuses
            && let EffectQuestion::Status { names, .. } = question
        {
            self.expect(question, &NOTATION.status(call.library, "result", names)?);
        }
        Ok(())
    }

    /// The call, behind the room for what it writes, and the names of what is passed as a number.
    fn called(
        &mut self,
        action: &Action<'_>,
        call: &'static Call,
        arguments: &[Argument],
    ) -> (String, Vec<Written>, Vec<&'static str>) {
        let (mut passed, mut written, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (param, argument) in call.params.iter().zip(arguments) {
            if param.c_type.is_empty() {
                continue;
            }
            let c_type = plain_type(param.c_type);
            passed.push(match argument {
                Argument::Number(Number::Int(0)) if c_type.contains('*') => "None".to_string(),
                Argument::Number(value) => {
                    if let Number::Named(name, _) = value {
                        names.push(*name);
                    }
                    typed(param, &c_type, value)
                }
                Argument::Text(of) => encoded(of),
                Argument::Variable(name) => variable(name),
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
                    names.push(template.name);
                    format!("room({}, {})", template.size, words.join(", "))
                }
                Argument::Out(output) => self.out(action, param, *output, &mut written),
                Argument::Rest => continue,
            });
        }
        (format!("{}.{}({})", object(call.library), call.name, passed.join(", ")), written, names)
    }

    /// The argument for an output of the call.
    fn out(&mut self, action: &Action<'_>, param: &Param, output: Output, written: &mut Vec<Written>) -> String {
        let name = variable(param.name);
        let key = param.name.to_string();
        let simple = match output {
            Output::I32 => Some("c_int"),
            Output::U32 => Some("c_uint"),
            Output::F32 => Some("c_float"),
            Output::U64 | Output::Varying => Some("c_uint64"),
            Output::Word(_) if action.bind.is_none() => Some("c_uint64"),
            _ => None,
        };
        if let Some(of) = simple {
            self.line(&format!("{name} = {of}()"));
            written.push(Written { key, value: format!("{name}.value"), is_handle: false });
            return format!("byref({name})");
        }
        match (output, action.bind) {
            (Output::Uuid, _) => {
                self.line(&format!("{name} = (c_ubyte * 16)()"));
                written.push(Written { key, value: format!("uuid_text({name})"), is_handle: false });
                name
            }
            (Output::Text(bytes), _) => {
                self.line(&format!("{name} = create_string_buffer({bytes})"));
                written.push(Written { key, value: format!("{name}.value.decode()"), is_handle: false });
                name
            }
            (Output::Struct(layout), _) => self.structure(name, layout, written),
            (Output::Blob(..), Some(bound)) => format!("byref({})", variable(bound)),
            (Output::Blob(_, bytes), None) => format!("room({bytes})"),
            (_, Some(bound)) => {
                let bound = variable(bound);
                written.push(Written { key, value: bound.clone(), is_handle: true });
                format!("byref({bound})")
            }
            (_, None) => {
                self.line(&format!("{name} = c_void_p()"));
                written.push(Written { key, value: name.clone(), is_handle: true });
                format!("byref({name})")
            }
        }
    }

    /// Room for a struct that the callee writes, and its members.
    fn structure(&mut self, name: String, layout: &Layout, written: &mut Vec<Written>) -> String {
        let words = layout.preset.iter().map(|word| format!(", ({}, 4, {:#x})", word.offset, word.value));
        let words: String = words.collect();
        self.line(&format!("{name} = room({}{words})", layout.size.div_ceil(8) * 8));
        for field in &layout.fields {
            let value = match field.read {
                FieldType::I32 => format!("word_at({name}, {}, 4)", field.offset),
                FieldType::U64 => format!("word_at({name}, {}, 8)", field.offset),
                FieldType::Text(_) => format!("bytes({name})[{}:].split(b\"\\0\")[0].decode()", field.offset),
            };
            written.push(Written { key: field.name.to_string(), value, is_handle: false });
        }
        name
    }

    fn told(&mut self, written: &[Written], label: &str, questions: Questions<'_>) -> Done {
        self.pad += 1;
        self.told_inside(written, label, questions)?;
        self.pad -= 1;
        Ok(())
    }

    /// Prints what was written, and asks what is asked about it.
    fn told_inside(&mut self, written: &[Written], label: &str, questions: Questions<'_>) -> Done {
        for Written { key, value, is_handle } in written {
            let mut value = value.clone();
            if self.program.is_compared(label, key) {
                let own = variable(&format!("{label}_{key}"));
                self.line(&format!("{own} = {value}"));
                value = own;
            }
            self.line(&format!(
                "print({}, {value}{})",
                literal(&format!("    {key} =")),
                if *is_handle { ".value" } else { "" }
            ));
            self.ask(key, &value, *is_handle, questions)?;
        }
        Ok(())
    }

    /// Asks what is asked about a value.
    fn ask(&mut self, key: &str, value: &str, is_handle: bool, questions: Questions<'_>) -> Done {
        for question in questions {
            let EffectQuestion::Value { name, sign, operand, .. } = question else { continue };
            if *name != key {
                continue;
            }
            let condition = match operand {
                Operand::Text(text) if is_handle && matches!(text.as_str(), "bound" | "NULL") => {
                    let is_null = (text == "NULL") == (*sign == "==");
                    if is_null { format!("not {value}.value") } else { format!("bool({value}.value)") }
                }
                Operand::Int(other) => format!("{value} {sign} {other}"),
                Operand::Text(text) if text == "${gpus}" => format!("{value} {sign} gpu_count()"),
                Operand::Value { label, name } => format!("{value} {sign} {}", variable(&format!("{label}_{name}"))),
                Operand::Text(text) if matches!(*sign, "==" | "!=") => {
                    let other = gpu_named(text).map_or_else(|| literal(text), |gpu| format!("uuid_of({gpu})"));
                    format!("str({value}) {sign} {other}")
                }
                Operand::Text(text) => return Err(Refusal(format!("its effect puts a value in order with `{text}`"))),
            };
            self.expect(question, &condition);
        }
        Ok(())
    }

    /// The questions of a step that are about the state of the driver and about memory.
    fn expect_rest(&mut self, questions: Questions<'_>) {
        for question in questions {
            let condition = match question {
                EffectQuestion::Status { .. } | EffectQuestion::Value { .. } => continue,
                EffectQuestion::Visible { gpus: GpuSet::All, .. } => "len(visible()) == gpu_count()".to_string(),
                EffectQuestion::Visible { gpus: GpuSet::These(gpus) | GpuSet::Others(gpus), .. } => {
                    let all: Vec<String> = gpus.iter().map(|gpu| format!("uuid_of({gpu})")).collect();
                    format!("visible() == [{}]", all.join(", "))
                }
                EffectQuestion::Current { gpu, .. } => match gpu {
                    Some(gpu) => format!("current_device() == {gpu}"),
                    None => "current_device() is None".to_string(),
                },
                EffectQuestion::Initialised { yes, .. } => {
                    let sign = if *yes { "!=" } else { "==" };
                    format!("load(\"libcuda.so.1\").cuDeviceGetCount(byref(c_int())) {sign} 3")
                }
                EffectQuestion::Contexts { .. } | EffectQuestion::Memory { .. } => {
                    NOTATION.memory(self.program, question, "before")
                }
            };
            self.expect(question, &condition);
        }
    }

    fn expect(&mut self, question: &EffectQuestion<'_>, condition: &str) {
        self.line(&asked("expect", condition, &literal(&question.words()), "", self.pad));
    }
}

const NOTATION: Notation = Notation {
    and: " and ",
    or: " or ",
    never: "False",
    enough: "cost * 5 // 4",
    size: |bytes| {
        if bytes != 0 && bytes % (1 << 20) == 0 { format!("{} << 20", bytes >> 20) } else { bytes.to_string() }
    },
    between: |more, least, most| format!("{least} <= {more} <= {most}"),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_hides_nothing_that_is_used() {
        assert_eq!(variable("memory"), "memory");
        for name in ["range", "answers", "in"] {
            assert_eq!(variable(name), format!("{name}_"));
        }
        assert_eq!(variable("2nd-stream"), "_2nd_stream");
    }

    #[test]
    fn bytes_are_ascii_whatever_the_text_is() {
        assert_eq!(bytes_literal("CUDA_VISIBLE_DEVICES"), "b\"CUDA_VISIBLE_DEVICES\"");
        // Python refuses `b"é"`, and reads `\u001b` in bytes as six characters.
        assert_eq!(bytes_literal("é\u{1b}\"\\\n"), r#"b"\xc3\xa9\x1b\"\\\n""#);
    }
}
