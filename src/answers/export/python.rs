//! A reproducer in Python: calls by ctypes, or the lines of a case of Python lines as they are.

use std::collections::BTreeSet;
use std::fmt::Write;

use cuda_pitfalls_calls::Returns;

use super::effect::Since;
use super::error::{Done, ExportError};
use super::helpers::{fill_lines, is_used, used_helpers};
use super::language::{Language, bytes_literal, library_object};
use super::program::{Reproducer, safe_identifier};
use super::writer::CaseText;
use cuda_pitfalls_core::text::escape::visible;

/// What is imported from ctypes if something uses it.
const OF_CTYPES: &str = "byref c_char_p c_float c_int c_size_t c_ubyte c_uint c_uint64 c_ulonglong c_void_p create_string_buffer";

/// Functions that stand in a file if something in it uses them.
const HELPERS: &str = include_str!("helpers.py");

pub(super) fn file(program: &Reproducer<'_>) -> Result<String, ExportError> {
    let mut cases = String::new();
    for sequence in &program.cases {
        let mut case = CaseText::new(Language::Python, program, sequence);
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
    for (name, lines) in program.kernels_by_name() {
        let (name, lines) = (
            safe_identifier(name, &[]),
            lines.map(|line| bytes_literal(&line)),
        );
        let _ = write!(
            out,
            "\nkernel_{name} = (\n{}\n)\n",
            fill_lines(lines, 112, "\n")
        );
    }
    out.push_str(&body);
    // A case that there is not must not end with 0.
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
        format!(" It needs {}.", packages.join(", "))
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
         codes[0]\n    print([\"It shows\", \"It does not show\", \"It cannot be told\"][min(code, 2)], \"(exit code %d)\" % code)\n    \
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
        if !program.is_of_lines() {
            self.libraries();
        }
        for held in &sequence.variables {
            let object = if held.is_block {
                "Block64()"
            } else {
                "c_void_p()"
            };
            self.declare_variable(
                &held.c_type,
                &Language::Python.variable(&held.name),
                "",
                object,
                "",
            );
        }
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

    fn libraries(&mut self) {
        self.line("cuda = load(\"libcuda.so.1\")");
        for (library, files) in self.program.libraries() {
            let files: Vec<String> = files
                .iter()
                .map(|file| Language::Python.string_literal(file))
                .collect();
            let files = if files.is_empty() {
                "*CUDART".to_string()
            } else {
                files.join(", ")
            };
            self.line(&format!("{} = load({files})", library_object(library)));
        }
        for call in self
            .program
            .calls()
            .iter()
            .filter(|call| call.returns == Returns::Text)
        {
            self.line(&format!(
                "{}.{}.restype = c_char_p",
                library_object(call.library),
                call.name
            ));
        }
    }
}
