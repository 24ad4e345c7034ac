//! A plain reproducer in Python: the lines of a framework as they are, or calls by ctypes.

use std::fmt::Write;

use cuda_pitfalls_calls::{Call, CallLibrary, Returns};

use super::super::Refusal;
use super::super::lines::{indented, last_expression};
use super::super::program::{Action, Argument, Doing, EffectQuestion};
use super::super::python::{CallText, called, kernels, literal, made, needs, object, variable};
use super::Plain;
use cuda_pitfalls_core::text::escape::visible;
use cuda_pitfalls_core::text::lines::words;

const CHECK: &str = r#"
def check(call, status):
    print(call, "=", status)
    return status == 0
"#;
const SHOW: &str = r#"
def show(name, what):
    print("   ", name, "=", what.decode() if isinstance(what, bytes) else what)
"#;
const MEMORY: &str = r#"
def print_memory(when):
    print(when + ", memory in use of each GPU:")
    os.system("nvidia-smi --query-gpu=index,memory.used --format=csv,noheader")
"#;

/// # Errors
/// What ctypes cannot pass without a declaration of our own.
pub(super) fn file(plain: &Plain<'_>) -> Result<String, Refusal> {
    let mut body = String::new();
    for action in &plain.sequence.steps {
        step(plain, action, &mut body)?;
    }
    let mut out = header(plain);
    let about_memory = plain.is_about_memory();
    for (module, is_used) in [
        ("ctypes", body.contains("ctypes.")),
        ("os", about_memory || body.contains("os.")),
        ("time", body.contains("time.")),
    ] {
        if is_used {
            let _ = writeln!(out, "import {module}");
        }
    }
    if !plain.program.is_of_lines() {
        out.push_str("from ctypes import *\n");
    }
    for (helper, use_of_it) in [(CHECK, "check("), (SHOW, "show(")] {
        if body.contains(use_of_it) {
            out.push_str(helper);
        }
    }
    if plain.is_about_memory() {
        out.push_str(MEMORY);
    }
    kernels(plain.program, &mut out);
    out.push('\n');
    libraries(plain, &mut out);
    for held in &plain.sequence.variables {
        let _ = writeln!(out, "{} = c_void_p()", variable(&held.name));
    }
    if plain.is_about_memory() {
        out.push_str("print_memory(\"before\")\n");
    }
    out.push_str(&body);
    let _ = writeln!(out, "print({})", literal(&format!("Look for: {}.", plain.sought)));
    Ok(out)
}

fn header(plain: &Plain<'_>) -> String {
    let mut run = vec![plain.start(&format!("python3 {}.py", plain.program.stem_or("plain")))];
    let packages: Vec<&str> = needs(plain.program).into_iter().collect();
    if !packages.is_empty() {
        run.push(format!("It needs {}.", packages.join(", ")));
    }
    let lines =
        plain.header(&run).into_iter().flat_map(|line| if line.is_empty() { vec![line] } else { words(&line, 100) });
    let lines: Vec<String> = lines.map(|line| visible(&line).replace('\\', "\\\\").replace("\"\"\"", "'''")).collect();
    format!("\"\"\"{}\n\"\"\"\n", lines.join("\n"))
}

fn libraries(plain: &Plain<'_>, out: &mut String) {
    if plain.program.is_of_lines() {
        return;
    }
    let mut calls: Vec<&Call> = plain.sequence.steps.iter().filter_map(Action::call).collect();
    calls.sort_by_key(|call| (call.library, call.name));
    calls.dedup_by_key(|call| call.name);
    let mut loaded = Vec::new();
    for call in &calls {
        if !loaded.contains(&call.library) {
            loaded.push(call.library);
            let library = match call.library {
                CallLibrary::Driver => "\"libcuda.so.1\"",
                CallLibrary::Runtime => "\"libcudart.so\"",
                CallLibrary::Nvml => "\"libnvidia-ml.so.1\"",
                CallLibrary::Nvrtc => "\"libnvrtc.so\"",
                CallLibrary::Cublas => "\"libcublas.so\"",
                CallLibrary::Cufft => "\"libcufft.so\"",
                CallLibrary::Nccl => "\"libnccl.so.2\"",
                CallLibrary::Libc | CallLibrary::Harness => "None",
            };
            let _ = writeln!(out, "{} = CDLL({library})", object(call.library).replace("environ", "libc"));
        }
        if call.returns == Returns::Text {
            let _ = writeln!(out, "{}.{}.restype = c_char_p", object(call.library), call.name);
        }
    }
    let reads = plain.sequence.steps.iter().any(|action| matches!(action.doing, Doing::Getenv { .. }));
    if reads && !loaded.contains(&CallLibrary::Libc) {
        out.push_str("libc = CDLL(None)\n");
    }
}

fn step(plain: &Plain<'_>, action: &Action<'_>, out: &mut String) -> Result<(), Refusal> {
    let label = &action.step.label;
    // A line of a framework says itself what it is.
    let says_itself = action.call().is_some_and(|call| call.name == *label) || plain.program.is_of_lines();
    if !says_itself || plain.names(label) {
        let _ = writeln!(out, "# {}", visible(label));
    }
    match &action.doing {
        Doing::Line { text, value } => line(plain, label, text, *value, out),
        Doing::Call { call, arguments } if !plain.program.is_of_lines() => {
            if arguments.iter().any(|argument| matches!(argument, Argument::List(_) | Argument::Dim3(..))) {
                return Err(Refusal(
                    "it launches a kernel, which ctypes takes by structures; write it `--as c`".into(),
                ));
            }
            let written = called(plain.sequence, action, call, arguments);
            out.extend(checked(call, written).iter().map(|line| format!("{line}\n")));
        }
        Doing::Mark => {}
        Doing::Open { file } => {
            let _ = writeln!(out, "ctypes.CDLL({})", literal(file));
        }
        _ => {
            for line in made(plain.sequence, action) {
                let line = line.replace("seen.value(", "show(").replace("seen.text(", "show(");
                let _ = writeln!(out, "{}", line.replace("environ.getenv", "libc.getenv"));
            }
        }
    }
    if plain.prints_memory_after(action) {
        let _ = writeln!(out, "print_memory({})", literal(&format!("after {label}")));
    }
    Ok(())
}

/// The call with its status printed, and below it what it wrote. Handles say nothing to a reader.
fn checked(call: &Call, written: CallText) -> Vec<String> {
    let CallText { before: mut lines, made, told, behind } = written;
    let made = match call.library {
        CallLibrary::Libc => made.replacen("environ.", "libc.", 1),
        _ => made,
    };
    let name = literal(call.name);
    if call.returns == Returns::Text {
        lines.push(format!("show({name}, {made}){behind}"));
        return lines;
    }
    let shown = |line: &String| {
        let rest = line.strip_prefix("seen.value(").or_else(|| line.strip_prefix("seen.text("));
        rest.map(|rest| format!("    show({rest}"))
    };
    let told: Vec<String> = told.iter().filter_map(shown).collect();
    if told.is_empty() {
        lines.push(format!("check({name}, {made}){behind}"));
    } else {
        lines.push(format!("if check({name}, {made}):{behind}"));
        lines.extend(told);
    }
    lines
}

/// A line of a framework. Where it is expected to raise, and more comes behind it, the error is printed.
fn line(plain: &Plain<'_>, label: &str, text: &str, value: Option<&str>, out: &mut String) {
    let raises = plain.questions.iter().any(|question| {
        matches!(question, EffectQuestion::Status { at, names } if *at == label && names.iter().any(|name| name != "OK"))
    });
    let code = match value {
        None => text.trim_end().to_string(),
        Some(name) => {
            let (before, last) = last_expression(text);
            let before = if before.trim().is_empty() { String::new() } else { format!("{}\n", before.trim_end()) };
            format!("{before}print({}, {})", literal(&format!("{name} =")), last.trim())
        }
    };
    let _ = if raises {
        let code = indented(&code, "    ");
        writeln!(out, "try:\n{code}\nexcept Exception as error:\n    print(type(error).__name__ + \":\", error)")
    } else {
        writeln!(out, "{code}")
    };
}
