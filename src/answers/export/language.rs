//! What is the same in both languages but for its form.

use super::program::{Number, identifier};
use super::{Language, c, python};

impl Language {
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
            out.push_str(index.parse().ok().and_then(|index: usize| values.get(index)).unwrap_or(&""));
            out.push_str(rest);
        }
        out
    }

    pub(super) fn variable(self, name: &str) -> String {
        identifier(name, self.pick([c::TAKEN.as_slice(), &python::TAKEN]))
    }

    pub(super) fn literal(self, text: &str) -> String {
        self.pick([c::literal, python::literal])(text)
    }

    pub(super) fn comment(self, text: &str) -> String {
        self.form(["/* $0 */", "# $0"], &[&self.pick([c::comment, python::comment])(text)])
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
}
