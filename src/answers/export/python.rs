//! A reproducer in Python: calls by ctypes, or the lines of a case of Python lines as they are.

use std::collections::BTreeSet;
use std::fmt::Write;

use cuda_pitfalls_calls::{CallLibrary, Layout, Param, ParamKind, Returns};

use super::Language;
use super::case::{CaseText, WrittenKind, status_asked};
use super::effect::{EffectQuestion, Questions, Since};
use super::lines::{indented, last_expression};
use super::program::{Action, Done, Number, Refusal, Reproducer, TextPiece, filled, identifier, is_used, used_helpers};
use cuda_pitfalls_core::text::escape::visible;

/// Names that a variable must not take: keywords, and what this file defines or uses.
pub(super) const TAKEN: [&str; 75] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
    "return", "try", "while", "with", "yield", "cuda", "cudart", "nvml", "nvrtc", "cublas", "cufft", "nccl", "libc",
    "bytes", "bool", "dict", "int", "float", "len", "list", "map", "max", "min", "open", "print", "range", "repr",
    "str", "type", "zip", "case", "call", "show", "known", "expect", "load", "used", "start", "before", "cost",
    "answers", "name", "result", "raised", "code", "os", "visible", "current",
];

/// What is imported from ctypes if something uses it.
const OF_CTYPES: &str =
    "byref c_char_p c_float c_int c_size_t c_ubyte c_uint c_uint64 c_ulonglong c_void_p create_string_buffer";

/// Functions that stand in a file if something in it uses them.
const HELPERS: &str = include_str!("helpers.py");

pub(super) fn file(program: &Reproducer<'_>) -> Result<String, Refusal> {
    let mut cases = String::new();
    for sequence in &program.cases {
        let mut case = CaseText::new(Language::Python, program, sequence);
        case.python_case()?;
        cases.push_str(&case.text);
    }
    let body = format!("{}{cases}", first_process(program));
    let helpers = used_helpers(HELPERS, &body, "\n\n") + "\n\nanswers = []\n";
    let all = format!("{helpers}{body}");
    let mut out = header(program);
    for module in ["ctypes", "mmap", "os", "re", "subprocess", "sys", "time"] {
        if is_used(&all, &format!("{module}.")) {
            let _ = writeln!(out, "import {module}");
        }
    }
    if all.contains("ThreadPoolExecutor(") {
        out.push_str("from concurrent.futures import ThreadPoolExecutor\n");
    }
    let words: Vec<&str> = all.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let imported: Vec<&str> = OF_CTYPES.split(' ').filter(|name| words.contains(name)).collect();
    if !imported.is_empty() {
        let _ = writeln!(out, "from ctypes import {}", imported.join(", "));
    }
    if !helpers.starts_with('\n') {
        out.push('\n');
    }
    out.push_str(&helpers);
    for (name, lines) in program.kernels() {
        let (name, lines) = (identifier(name, &[]), lines.map(|line| bytes_literal(&line)));
        let _ = write!(out, "\nkernel_{name} = (\n{}\n)\n", filled(lines, 112, "\n"));
    }
    out.push_str(&body);
    // A case that there is not must not end with 0.
    out.push_str("case is None or sys.exit(77)  # there is no such case\n");
    Ok(out)
}

/// A Python string. Text of JSON is one too.
pub(super) fn literal(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

pub(super) fn comment(text: &str) -> String {
    visible(text)
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

/// What has the functions of a library.
pub(super) fn object(library: CallLibrary) -> &'static str {
    match library {
        CallLibrary::Driver => "cuda",
        CallLibrary::Runtime => "cudart",
        CallLibrary::Nvml => "nvml",
        CallLibrary::Nvrtc => "nvrtc",
        CallLibrary::Cublas => "cublas",
        CallLibrary::Cufft => "cufft",
        CallLibrary::Nccl => "nccl",
        CallLibrary::Libc | CallLibrary::Harness => "ctypes.CDLL(None)",
    }
}

pub(super) fn text(pieces: &[TextPiece]) -> String {
    let parts = pieces.iter().map(|piece| match piece {
        TextPiece::Said(text) => literal(text),
        TextPiece::Uuid(gpu) => format!("uuid_of({gpu})"),
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { literal("") } else { parts.join(" + ") }
}

pub(super) fn encoded(pieces: &[TextPiece]) -> String {
    match pieces {
        [] => "b\"\"".to_string(),
        [TextPiece::Said(text)] => bytes_literal(text),
        [TextPiece::Uuid(gpu)] => format!("uuid_of({gpu}).encode()"),
        all => format!("({}).encode()", text(all)),
    }
}

pub(super) fn passed_number(value: &Number, param: &Param, c_type: &str) -> String {
    let of = match param.kind {
        ParamKind::Bytes => "c_size_t",
        ParamKind::U64 => "c_ulonglong",
        // What ctypes passes for a small number of Python.
        ParamKind::U32 | ParamKind::I32 | ParamKind::Constant(_) | ParamKind::Pid => "",
        _ if c_type.contains('*') => "c_void_p",
        _ if matches!(c_type, "int" | "unsigned int") => "",
        _ => "c_size_t",
    };
    let value = Language::Python.number(value);
    if of.is_empty() { value } else { format!("{of}({value})") }
}

/// A variable of this type of C, or an array of so many.
pub(super) fn room(c_type: &str, count: Option<usize>) -> String {
    match (c_type, count) {
        ("char", Some(count)) => format!("create_string_buffer({count})"),
        (_, Some(count)) => format!("(c_ubyte * {count})()"),
        ("int", None) => "c_int()".to_string(),
        ("unsigned int", None) => "c_uint()".to_string(),
        ("float", None) => "c_float()".to_string(),
        ("size_t", None) => "c_size_t()".to_string(),
        ("unsigned long long", None) => "c_ulonglong()".to_string(),
        (_, None) => "c_void_p()".to_string(),
    }
}

/// A struct that a call writes.
pub(super) fn struct_room(layout: &Layout) -> String {
    let words = layout.preset.iter().map(|word| format!(", ({}, 4, {:#x})", word.offset, word.value));
    format!("room({}{})", layout.size.div_ceil(8) * 8, words.collect::<String>())
}

pub(super) fn address(name: &str, _: &str, _: &str) -> String {
    format!("byref({name})")
}

/// That CUDA shows these GPUs.
pub(super) fn shows(gpus: &[u32]) -> String {
    let all: Vec<String> = gpus.iter().map(|gpu| format!("uuid_of({gpu})")).collect();
    format!("visible() == [{}]", all.join(", "))
}

impl CaseText<'_> {
    fn python_case(&mut self) -> Done {
        let (sequence, program) = (self.sequence, self.program);
        let _ = write!(self.text, "\nif case == {}:\n", literal(&sequence.case.name));
        if !program.is_of_lines() {
            self.libraries();
        }
        for held in &sequence.variables {
            let object = if held.is_block { "Block64()" } else { "c_void_p()" };
            self.declare(&held.c_type, &Language::Python.variable(&held.name), "", object, "");
        }
        if program.is_counted_since(Since::Start) && program.gpus_read() > 0 {
            self.line(&format!("start = [{}]", program.readings()));
        }
        if program.needs_cost() {
            self.line("cost = context_cost()");
        }
        self.steps(&sequence.steps)?;
        let count = program.questions.len();
        self.line(&format!("sys.exit(1 if not all(answers) else 0 if len(answers) == {count} else 77)"));
        Ok(())
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

    /// Lines of a framework. Where one may raise, the case goes on behind it.
    pub(super) fn python_lines(
        &mut self,
        label: &str,
        code: &str,
        value: Option<&str>,
        may_raise: bool,
        questions: Questions<'_>,
    ) -> Done {
        let status = status_asked(questions);
        let is_asked = questions
            .iter()
            .any(|question| !matches!(question, EffectQuestion::Memory { .. } | EffectQuestion::Contexts { .. }));
        let is_tried = status.is_some() || may_raise || is_asked && value.is_none();
        let (before, last) = if value.is_some() { last_expression(code) } else { (code, "") };
        let mut whole = before.trim_end().to_string();
        if value.is_some() {
            let gap = if whole.trim().is_empty() { "" } else { "\n" };
            whole = format!("{whole}{gap}seen = {}", last.trim());
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
                self.line(&format!("{} = known(seen)", Language::Python.variable(&format!("{label}_{name}"))));
            }
            self.ask(name, "known(seen)", WrittenKind::Number, questions)?;
            self.pad -= usize::from(is_tried);
        }
        if questions.iter().any(|it| matches!(it, EffectQuestion::Value { name: "message", .. })) {
            self.line("if message is not None:");
            self.pad += 1;
            self.ask("message", "message", WrittenKind::Number, questions)?;
            self.pad -= 1;
        }
        if let Some((question, names)) = status {
            let all: Vec<String> = names.iter().map(|name| format!("raised == {}", literal(name))).collect();
            self.expect(question, &all.join(" or "));
        }
        Ok(())
    }

    pub(super) fn python_thread(&mut self, steps: &[Action<'_>]) -> Done {
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
        Ok(())
    }

    /// Waits for a child that asks so many questions.
    pub(super) fn python_wait(&mut self, child: &str, count: usize) {
        self.line(&format!("ended = os.waitpid({child}, 0)[1]"));
        if count > 0 {
            let answers = format!("answers += [ended == 0] * ({count} if ended in (0, 1 << 8) else 0)");
            self.line(&format!("{answers}  # it exited with 0 or 1"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_hides_nothing_that_is_used() {
        for (name, variable) in [("memory", "memory"), ("range", "range_"), ("answers", "answers_"), ("in", "in_")] {
            assert_eq!(Language::Python.variable(name), variable);
        }
    }

    #[test]
    fn bytes_are_ascii_whatever_the_text_is() {
        assert_eq!(bytes_literal("CUDA_VISIBLE_DEVICES"), "b\"CUDA_VISIBLE_DEVICES\"");
        // Python refuses `b"é"`, and reads `\u001b` in bytes as six characters.
        assert_eq!(bytes_literal("é\u{1b}\"\\\n"), r#"b"\xc3\xa9\x1b\"\\\n""#);
    }
}
