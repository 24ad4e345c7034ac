//! The two languages: how each writes a text, a number of bytes and a variable. If only the form differs, both forms
//! are next to each other.

use std::fmt::Write;

use super::program::{TextPiece, safe_identifier};
use cuda_pitfalls_core::text::escape::visible;

/// The language of a reproducer, which is the language of the scenario's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// C against libcuda, libcudart and NVML: the steps are calls.
    C,
    /// Python: the steps are Python lines, which are copied unchanged.
    Python,
}

/// C types of 64-bit integer handles.
pub(super) const WIDE: [&str; 9] = [
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
/// Names that a C variable must not have: keywords, and names that the file defines or uses.
const TAKEN_IN_C: [&str; 44] = [
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "int", "long", "register", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "while", "inline", "kill", "fork", "free", "environ", "start", "before", "asked",
    "failed", "index", "used", "status",
];
/// Functions in the files of both languages. A Python variable is named after the label of a step and the name of a
/// value, so it cannot be a keyword, but it may equal one of these.
const FUNCTIONS: [&str; 4] = ["context_cost", "gpu_count", "uuid_of", "uuid_text"];

impl Language {
    /// Returns the name of the language in Markdown.
    pub fn name(self) -> &'static str {
        self.pick(["c", "python"])
    }

    /// Returns the suffix of the file name.
    pub fn extension(self) -> &'static str {
        self.pick(["c", "py"])
    }

    /// Returns the commands that compile and start a file with this stem, one command per line.
    pub fn run_commands(self, stem: &str) -> Vec<String> {
        match self {
            Language::C => vec![
                format!("cc -o {stem} {stem}.c -ldl -lpthread"),
                format!("./{stem}"),
            ],
            Language::Python => vec![format!("python3 {stem}.py")],
        }
    }

    pub(super) fn pick<T>(self, [c, python]: [T; 2]) -> T {
        match self {
            Language::C => c,
            Language::Python => python,
        }
    }

    /// Returns the form for this language, with these values in place of `$0`, `$1` and `$2`.
    pub(super) fn form(self, forms: [&str; 2], values: &[&str]) -> String {
        let mut parts = self.pick(forms).split('$');
        let mut out = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let (index, rest) = part.split_at(1);
            out.push_str(
                index
                    .parse()
                    .ok()
                    .and_then(|index: usize| values.get(index))
                    .unwrap_or(&""),
            );
            out.push_str(rest);
        }
        out
    }

    pub(super) fn variable(self, name: &str) -> String {
        let name = safe_identifier(name, &FUNCTIONS);
        match self {
            Language::C => safe_identifier(&name, &TAKEN_IN_C),
            Language::Python => name,
        }
    }

    /// Returns a string literal. JSON strings are also valid in Python.
    pub(super) fn string_literal(self, text: &str) -> String {
        match self {
            Language::C => c_literal(text),
            Language::Python => serde_json::Value::from(text).to_string(),
        }
    }

    pub(super) fn comment_line(self, text: &str) -> String {
        self.form(["/* $0 */", "# $0"], &[&self.escape_comment(text)])
    }

    /// Returns a text that cannot end its comment early.
    pub(super) fn escape_comment(self, text: &str) -> String {
        match self {
            Language::C => visible(text).replace("*/", "* /").replace("/*", "/ *"),
            Language::Python => visible(text),
        }
    }

    /// Returns a number of bytes in the largest unit that divides it.
    pub(super) fn size(self, bytes: i64) -> String {
        if bytes < 0 {
            return format!("-({})", self.size(-bytes));
        }
        for (shift, word) in [(30, self.pick(["(size_t)", ""])), (20, ""), (10, "")] {
            let whole = bytes >> shift;
            if bytes > 0 && whole << shift == bytes && (shift == 30 || whole < 2048) {
                return format!("{word}{whole} << {shift}");
            }
        }
        bytes.to_string()
    }

    /// Returns a text literal that contains UUIDs known only at run time.
    pub(super) fn text(self, pieces: &[TextPiece]) -> String {
        let (mut said, mut form, mut uuids, mut parts) =
            (String::new(), String::new(), String::new(), Vec::new());
        for piece in pieces {
            match piece {
                TextPiece::Said(text) => {
                    said.push_str(text);
                    form.push_str(&text.replace('%', "%%"));
                    parts.push(self.string_literal(text));
                }
                TextPiece::Uuid(gpu) => {
                    form.push_str("%s");
                    let _ = write!(uuids, ", uuid_of({gpu})");
                    parts.push(format!("uuid_of({gpu})"));
                }
            }
        }
        match pieces {
            _ if uuids.is_empty() => self.string_literal(&said),
            [_] => parts.concat(),
            _ if self == Language::Python => parts.join(" + "),
            _ => format!("format({}{uuids})", self.string_literal(&form)),
        }
    }

    pub(super) fn shows(self, gpus: &[u32]) -> String {
        if self == Language::Python {
            let all: Vec<String> = gpus.iter().map(|gpu| format!("uuid_of({gpu})")).collect();
            return format!("visible() == [{}]", all.join(", "));
        }
        let count = if gpus.is_empty() {
            "DEVICES <= 0".to_string()
        } else {
            format!("DEVICES == {}", gpus.len())
        };
        let each = gpus
            .iter()
            .enumerate()
            .map(|(device, gpu)| format!("is_gpu({device}, {gpu})"));
        [count]
            .into_iter()
            .chain(each)
            .collect::<Vec<_>>()
            .join(" && ")
    }
}

fn c_literal(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            // An octal escape ends after three digits; a hexadecimal one would include the next digits.
            0..32 | 127.. => {
                let _ = write!(out, "\\{byte:03o}");
            }
            // Two question marks in a row may begin a trigraph.
            b'?' => out.push_str("\\?"),
            _ => out.push(char::from(byte)),
        }
    }
    out.push('"');
    out
}

pub(super) fn c_declaration(c_type: &str, name: &str) -> String {
    if c_type.ends_with('*') {
        format!("{c_type}{name}")
    } else {
        format!("{c_type} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_string_or_its_comment() {
        assert_eq!(
            Language::C.string_literal("a\"\\b\nc\u{1}2??)"),
            "\"a\\\"\\\\b\\nc\\0012\\?\\?)\""
        );
        assert_eq!(
            Language::C.escape_comment("x */ int y; /* z"),
            "x * / int y; / * z"
        );
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit() {
        let sizes = [1 << 20, 3 << 30, 100, 4096, 0, -1].map(|bytes| Language::C.size(bytes));
        assert_eq!(
            sizes,
            ["1 << 20", "(size_t)3 << 30", "100", "4 << 10", "0", "-(1)"]
        );
    }

    #[test]
    fn a_variable_is_a_name_of_the_language_and_hides_nothing_that_is_used() {
        for (name, variable) in [
            ("default", "default_"),
            ("2nd", "_2nd"),
            ("a-b", "a_b"),
            ("memory", "memory"),
            ("gpu-count", "gpu_count_"),
        ] {
            assert_eq!(Language::C.variable(name), variable);
        }
        assert_eq!(Language::Python.variable("gpu_count"), "gpu_count_");
    }
}
