//! The two languages: how each writes a text, a number, a variable, and what a call is given. What differs in a form
//! alone stands side by side.

use std::fmt::Write;

use cuda_pitfalls_calls::{CallLibrary, Param, ParamKind};

use super::program::{Number, TextPiece, safe_identifier};
use cuda_pitfalls_core::text::escape::visible;

/// What a reproducer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Language {
    /// C against libcuda, libcudart and NVML.
    C,
    /// Python with ctypes alone; the lines of a case of Python lines as they are.
    Python,
}

/// C types of handles that are integers of 64 bits.
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
/// Names that a variable of C must not take.
const TAKEN_IN_C: [&str; 44] = [
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "int", "long", "register", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "while", "inline", "kill", "fork", "free", "environ", "start", "before", "asked",
    "failed", "index", "used", "status",
];
/// Names that a variable of Python must not take: keywords, and what the file defines or uses.
const TAKEN_IN_PYTHON: [&str; 75] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
    "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda",
    "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "cuda",
    "cudart", "nvml", "nvrtc", "cublas", "cufft", "nccl", "libc", "bytes", "bool", "dict", "int",
    "float", "len", "list", "map", "max", "min", "open", "print", "range", "repr", "str", "type",
    "zip", "case", "call", "show", "known", "expect", "load", "used", "start", "before", "cost",
    "answers", "name", "result", "raised", "code", "os", "visible", "current",
];

impl Language {
    /// Both.
    pub const ALL: [Language; 2] = [Language::C, Language::Python];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        self.pick(["c", "python"])
    }

    /// What the name of such a file ends in.
    pub fn extension(self) -> &'static str {
        self.pick(["c", "py"])
    }

    /// How a file of this stem is compiled and started, a command a line.
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

    /// The form of this language with these values in the place of `$0`, `$1` and `$2`.
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
        safe_identifier(name, self.pick([TAKEN_IN_C.as_slice(), &TAKEN_IN_PYTHON]))
    }

    /// A string. Text of JSON is one of Python too.
    pub(super) fn string_literal(self, text: &str) -> String {
        match self {
            Language::C => c_literal(text),
            Language::Python => serde_json::Value::from(text).to_string(),
        }
    }

    pub(super) fn comment_line(self, text: &str) -> String {
        self.form(["/* $0 */", "# $0"], &[&self.escape_comment(text)])
    }

    /// A text that cannot leave its comment.
    pub(super) fn escape_comment(self, text: &str) -> String {
        match self {
            Language::C => visible(text).replace("*/", "* /").replace("/*", "/ *"),
            Language::Python => visible(text),
        }
    }

    pub(super) fn number(self, number: &Number) -> String {
        match number {
            Number::Named(name, _) if self == Language::C => (*name).to_string(),
            Number::Int(value) | Number::Named(_, value) => value.to_string(),
            Number::Gpus => "gpu_count()".to_string(),
        }
    }

    /// A number of bytes in the largest unit that divides it.
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

    /// A text in which UUIDs stand that are known at run time.
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

    /// A text as C calls take it.
    pub(super) fn passed_text(self, pieces: &[TextPiece]) -> String {
        match pieces {
            _ if self == Language::C => self.text(pieces),
            [] => "b\"\"".to_string(),
            [TextPiece::Said(text)] => bytes_literal(text),
            [TextPiece::Uuid(_)] => format!("{}.encode()", self.text(pieces)),
            _ => format!("({}).encode()", self.text(pieces)),
        }
    }

    pub(super) fn passed_number(self, value: &Number, param: &Param, c_type: &str) -> String {
        let number = self.number(value);
        let converted = match (self, param.kind, value) {
            (Language::C, ..) if c_type.contains('*') => {
                return format!("(void *)(uintptr_t){number}");
            }
            (Language::C, ParamKind::Bytes, Number::Int(bytes)) => return self.size(*bytes),
            (Language::C, ..) => return number,
            (_, ParamKind::Bytes, _) => "c_size_t",
            (_, ParamKind::U64, _) => "c_ulonglong",
            // What ctypes passes for a small number of Python.
            (_, ParamKind::U32 | ParamKind::I32 | ParamKind::Constant(_) | ParamKind::Pid, _) => {
                return number;
            }
            _ if c_type.contains('*') => "c_void_p",
            _ if matches!(c_type, "int" | "unsigned int") => return number,
            _ => "c_size_t",
        };
        format!("{converted}({number})")
    }

    /// What a variable of this C type begins as, or an array of so many.
    pub(super) fn room(self, c_type: &str, count: Option<usize>) -> String {
        let forms = match (c_type, count) {
            ("char", Some(_)) => ["\"\"", "create_string_buffer($0)"],
            (_, Some(_)) => ["{0}", "(c_ubyte * $0)()"],
            (pointer, None) if pointer.ends_with('*') => ["NULL", "c_void_p()"],
            ("int", None) => ["0", "c_int()"],
            ("unsigned int", None) => ["0", "c_uint()"],
            ("float", None) => ["0", "c_float()"],
            ("size_t", None) => ["0", "c_size_t()"],
            ("unsigned long long", None) => ["0", "c_ulonglong()"],
            (_, None) => ["0", "c_void_p()"],
        };
        self.form(forms, &[&count.unwrap_or_default().to_string()])
    }

    /// The address of a variable of the type `own`, for a parameter of this C type.
    pub(super) fn address(self, name: &str, own: &str, c_type: &str) -> String {
        let is_same = c_type.replace(' ', "") == format!("{own}*").replace(' ', "");
        self.form(
            [if is_same { "&$0" } else { "(void *)&$0" }, "byref($0)"],
            &[name],
        )
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

/// A Python literal of bytes: the text in UTF-8. Only ASCII may stand in one.
pub(super) fn bytes_literal(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b'\n' => "\\n".to_string(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("b\"{}\"", escaped.collect::<String>())
}

pub(super) fn c_declaration(c_type: &str, name: &str) -> String {
    if c_type.ends_with('*') {
        format!("{c_type}{name}")
    } else {
        format!("{c_type} {name}")
    }
}

/// What has the functions of a library in Python.
pub(super) fn library_object(library: CallLibrary) -> &'static str {
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
        ] {
            assert_eq!(Language::C.variable(name), variable);
        }
        for (name, variable) in [
            ("memory", "memory"),
            ("range", "range_"),
            ("answers", "answers_"),
            ("in", "in_"),
        ] {
            assert_eq!(Language::Python.variable(name), variable);
        }
    }

    #[test]
    fn bytes_are_ascii_whatever_the_text_is() {
        assert_eq!(
            bytes_literal("CUDA_VISIBLE_DEVICES"),
            "b\"CUDA_VISIBLE_DEVICES\""
        );
        // Python refuses `b"é"`, and reads `\u001b` in bytes as six characters.
        assert_eq!(bytes_literal("é\u{1b}\"\\\n"), r#"b"\xc3\xa9\x1b\"\\\n""#);
    }
}
