//! A reproducer in Python: the lines of a scenario's cases, unchanged, and the checks between them.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::call::status_asked;
use super::case::two_languages_error;
use super::condition::WrittenKind;
use super::effect::{EffectQuestion, Questions, Since};
use super::error::{Done, ExportError};
use super::helpers::{is_used, used_helpers};
use super::language::Language;
use super::lines::{indent_lines, last_expression};
use super::program::{Argument, Doing, ExportStep, Number, Reproducer};
use super::writer::CaseText;
use cuda_pitfalls_core::text::escape::visible;

/// Names that are imported from ctypes if they are used.
const OF_CTYPES: &str = "byref c_int c_ubyte c_uint c_ulonglong c_void_p create_string_buffer";

/// Functions that a file contains if it uses them.
const HELPERS: &str = include_str!("helpers.py");

pub(super) fn file(program: &Reproducer<'_>) -> Result<String, ExportError> {
    let mut cases = String::new();
    for sequence in &program.cases {
        let mut case = CaseText::new(program, sequence);
        case.python_case()?;
        cases.push_str(&case.text);
    }
    let body = format!("{}{cases}", first_process(program));
    let helpers = used_helpers(HELPERS, &body, "\n\n") + "\n\nanswers = []\n";
    let all = format!("{helpers}{body}");
    let mut out = python_header(program);
    for module in ["ctypes", "mmap", "os", "re", "subprocess", "sys", "time"] {
        if is_used(&all, &format!("{module}.")) {
            let _ = writeln!(out, "import {module}");
        }
    }
    if all.contains("ThreadPoolExecutor(") {
        out.push_str("from concurrent.futures import ThreadPoolExecutor\n");
    }
    let words: Vec<&str> = all
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let imported: Vec<&str> = OF_CTYPES
        .split(' ')
        .filter(|name| words.contains(name))
        .collect();
    if !imported.is_empty() {
        let _ = writeln!(out, "from ctypes import {}", imported.join(", "));
    }
    if !helpers.starts_with('\n') {
        out.push('\n');
    }
    out.push_str(&helpers);
    out.push_str(&body);
    // An unknown case must not end with 0.
    out.push_str("case is None or sys.exit(77)  # there is no such case\n");
    Ok(out)
}

fn python_header(program: &Reproducer<'_>) -> String {
    let pythons = program
        .cases
        .iter()
        .filter_map(|sequence| sequence.case.python.as_ref());
    let packages: BTreeSet<&str> = pythons
        .flat_map(|python| &python.needs)
        .map(String::as_str)
        .collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    let needs = if packages.is_empty() {
        String::new()
    } else {
        format!("It needs {}. ", packages.join(", "))
    };
    let commands = Language::Python.run_commands(&program.stem).join(" && ");
    let lines = program
        .header_lines(&format!("{commands}; echo $?"), &needs)
        .into_iter();
    let lines: Vec<String> = lines
        .map(|line| {
            visible(&line)
                .replace('\\', "\\\\")
                .replace("\"\"\"", "'''")
        })
        .collect();
    format!(
        "#!/usr/bin/env python3\n\"\"\"{}\n\"\"\"\n",
        lines.join("\n")
    )
}

/// Returns the code of the first process: it runs each case in a fresh process, and exits.
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
            let own: Vec<String> = own
                .iter()
                .map(|(name, value)| {
                    format!(
                        "{}: {}",
                        Language::Python.string_literal(name),
                        Language::Python.text(value)
                    )
                })
                .collect();
            format!(
                "({}, {{{}}})",
                Language::Python.string_literal(&sequence.case.name),
                own.join(", ")
            )
        })
        .collect();
    let code = if listed.len() > 1 {
        "codes[0] not in (0, 1) or codes[1] != 1"
    } else {
        "codes[0] not in (0, 1)"
    };
    let _ = write!(
        text,
        "    for name, own in [{}]:\n        print(name, own)\n        command = [\"timeout\", \"{}\", sys.executable, __file__, \
         name]\n        codes.append(subprocess.run(command, env={{**inherited, \"CUDA_DEVICE_ORDER\": \"PCI_BUS_ID\", **own}}).returncode)\n    code = 77 if {code} else \
         codes[0]\n    print([\"Reproduced\", \"Not reproduced\", \"Inconclusive\"][min(code, 2)], \"(exit code %d)\" % code)\n    \
         sys.exit(code)\nsys.stdout.reconfigure(line_buffering=True)\n\
         sys.excepthook = lambda *error: (sys.__excepthook__(*error), os._exit(77))  # Python's own code would be 1\n",
        listed.join(", "),
        program.scenario.timeout_ms.div_ceil(1000),
    );
    text
}

impl CaseText<'_> {
    fn python_case(&mut self) -> Done {
        let (sequence, program) = (self.sequence, self.program);
        let _ = write!(
            self.text,
            "\nif case == {}:\n",
            Language::Python.string_literal(&sequence.case.name)
        );
        if program.is_counted_since(Since::Start) && program.gpus_read() > 0 {
            self.line(&format!("start = [{}]", program.memory_readings()));
        }
        if program.needs_cost() {
            self.line("cost = context_cost()");
        }
        self.steps(&sequence.steps)?;
        let count = program.questions.len();
        self.line(&format!(
            "sys.exit(1 if not all(answers) else 0 if len(answers) == {count} else 77)"
        ));
        Ok(())
    }

    /// Writes a step that exists only in Python, or that is written differently in C.
    pub(super) fn python_step(
        &mut self,
        action: &ExportStep<'_>,
        questions: Questions<'_>,
    ) -> Done {
        match &action.doing {
            Doing::Line {
                text,
                value,
                may_raise,
            } => self.python_lines(action.label, text, *value, *may_raise, questions),
            Doing::Thread(steps) => self.python_thread(steps),
            Doing::Call { call, arguments } if status_asked(questions).is_none() => {
                let Some(statement) = environment_statement(call.name, arguments) else {
                    return Err(two_languages_error(action));
                };
                let remark = self.remark_comment(action);
                self.write_statement(&statement, &remark);
                Ok(())
            }
            _ => Err(two_languages_error(action)),
        }
    }

    /// Writes lines that use a framework. If one of them may raise an exception, the case continues after it.
    fn python_lines(
        &mut self,
        label: &str,
        code: &str,
        value: Option<&str>,
        may_raise: bool,
        questions: Questions<'_>,
    ) -> Done {
        let status = status_asked(questions);
        let is_asked = questions.iter().any(|question| {
            !matches!(
                question,
                EffectQuestion::Memory { .. } | EffectQuestion::Contexts { .. }
            )
        });
        let is_tried = status.is_some() || may_raise || is_asked && value.is_none();
        let lines = match value {
            Some(_) => keep_last_value(code),
            None => code.trim_end().to_string(),
        };
        if is_tried {
            self.line("raised, message = \"OK\", None");
            self.line("try:");
        }
        let pad = "    ".repeat(self.pad + usize::from(is_tried));
        let _ = writeln!(self.text, "{}", indent_lines(&lines, &pad));
        if is_tried {
            self.line("except Exception as error:");
            self.line("    raised, message = type(error).__name__, str(error).split(\"\\n\")[0]");
            self.line("    print(\"   \", raised, message)");
        }
        if let Some(name) = value {
            if is_tried {
                self.line("if raised == \"OK\":");
            }
            self.pad += usize::from(is_tried);
            self.python_value(label, name, questions)?;
            self.pad -= usize::from(is_tried);
        }
        self.python_message(questions)?;
        if let Some((question, names)) = status {
            let mut all = Vec::new();
            for name in names {
                all.push(format!(
                    "raised == {}",
                    Language::Python.string_literal(name)
                ));
            }
            self.expect(question, &all.join(" or "));
        }
        Ok(())
    }

    /// Prints the value of the last line, and writes the checks of it.
    fn python_value(&mut self, label: &str, name: &str, questions: Questions<'_>) -> Done {
        let shown = Language::Python.string_literal(&format!("    {name} ="));
        self.line(&format!("print({shown}, seen)"));
        if self.program.is_compared(label, name) {
            let kept = Language::Python.variable(&format!("{label}_{name}"));
            self.line(&format!("{kept} = known(seen)"));
        }
        self.ask_value(name, "known(seen)", WrittenKind::Number, questions)
    }

    /// Writes the checks of the exception's message.
    fn python_message(&mut self, questions: Questions<'_>) -> Done {
        let is_asked = questions.iter().any(|question| {
            matches!(
                question,
                EffectQuestion::Value {
                    name: "message",
                    ..
                }
            )
        });
        if !is_asked {
            return Ok(());
        }
        self.line("if message is not None:");
        self.pad += 1;
        self.ask_value("message", "message", WrittenKind::Number, questions)?;
        self.pad -= 1;
        Ok(())
    }

    fn python_thread(&mut self, steps: &[ExportStep<'_>]) -> Done {
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

    /// Waits for a child that makes `count` checks.
    pub(super) fn python_wait(&mut self, child: &str, count: usize) {
        self.line(&format!("ended = os.waitpid({child}, 0)[1]"));
        if count > 0 {
            let answers =
                format!("answers += [ended == 0] * ({count} if ended in (0, 1 << 8) else 0)");
            self.line(&format!("{answers}  # it exited with 0 or 1"));
        }
    }
}

/// Returns the lines with the value of the last one in `seen`.
fn keep_last_value(code: &str) -> String {
    let (before, last) = last_expression(code);
    let kept = before.trim_end();
    let gap = if kept.trim().is_empty() { "" } else { "\n" };
    format!("{kept}{gap}seen = {}", last.trim())
}

/// Returns the statement for a call that changes the environment. Python and C share the same environment.
fn environment_statement(call: &str, arguments: &[Argument]) -> Option<String> {
    Some(match (call, arguments) {
        (
            "setenv",
            [
                Argument::Text(name),
                Argument::Text(value),
                Argument::Number(Number::Int(0)),
            ],
        ) => {
            let (name, value) = (Language::Python.text(name), Language::Python.text(value));
            format!("os.environ.setdefault({name}, {value})")
        }
        ("setenv", [Argument::Text(name), Argument::Text(value), ..]) => {
            let (name, value) = (Language::Python.text(name), Language::Python.text(value));
            format!("os.environ[{name}] = {value}")
        }
        ("unsetenv", [Argument::Text(name)]) => {
            format!("os.environ.pop({}, None)", Language::Python.text(name))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::program::TextPiece;

    #[test]
    fn setenv_without_overwrite_keeps_the_variable() {
        for (overwrite, statement) in [
            (0, "os.environ.setdefault(\"A\", \"1\")"),
            (1, "os.environ[\"A\"] = \"1\""),
        ] {
            let overwrite = Argument::Number(Number::Int(overwrite));
            let [name, value] =
                ["A", "1"].map(|text| Argument::Text(vec![TextPiece::Said(text.to_owned())]));
            let written = environment_statement("setenv", &[name, value, overwrite]);
            assert_eq!(written.as_deref(), Some(statement));
        }
        assert_eq!(environment_statement("getpid", &[]), None);
    }
}
