//! Text of a scenario as Markdown: C names become code, special characters are escaped, and lines are short.

use std::fmt::Write as _;

use cuda_pitfalls::scenario::Scalar;
use cuda_pitfalls::text::escape::visible;
use cuda_pitfalls_calls as calls;

/// The longest line. Single words and links may be longer.
const WIDTH: usize = 100;

/// Returns text on one line, with special characters escaped and nothing added.
pub(super) fn escape_text(text: &str) -> String {
    text.split_whitespace()
        .map(visible)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns a sentence as Markdown. Text between backticks is code.
pub(crate) fn to_markdown(text: &str) -> String {
    let text = escape_text(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '`' => rest
                .get(1..)
                .and_then(|rest| rest.find('`'))
                .map_or(1, |end| end + 2),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        match token {
            "<" => out.push_str("&lt;"),
            "`" | "*" | "\\" => out.extend(['\\', first]),
            token if first == '`' => out.push_str(&code(token.trim_matches('`'))),
            token if is_c_name(token) => {
                let call = arguments(rest).unwrap_or_default();
                out.push_str(&code(&format!("{token}{call}")));
                rest = rest.get(call.len()..).unwrap_or_default();
            }
            token => out.push_str(token),
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the parentheses right after a name, as in `cudaSetDevice(0)`.
fn arguments(text: &str) -> Option<&str> {
    let text = text.get(..=text.find(')')?)?;
    (text.starts_with('(') && text.len() <= 40 && !text.contains('`')).then_some(text)
}

/// Returns `true` if a word is a C name: of a call, a status, a variable or a signal.
fn is_c_name(word: &str) -> bool {
    let camel = ["cuda", "cu", "nvml", "nvrtc", "nccl", "cublas", "cufft"];
    let capitals = ["CUDA_", "CU_", "NVML_", "NVIDIA_", "NCCL_", "LD_"];
    let is_signal =
        word.len() > 5 && word.starts_with("SIG") && word.chars().all(|c| c.is_ascii_uppercase());
    let is_call = calls::find(word).is_some() && (word.contains('_') || word.ends_with("env"));
    let mut camel = camel.iter().filter_map(|prefix| word.strip_prefix(prefix));
    let mut capitals = capitals
        .iter()
        .filter_map(|prefix| word.strip_prefix(prefix));
    camel.any(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        || capitals.any(|rest| rest.starts_with(is_word))
        || is_signal
        || is_call
}

/// Returns code within a line. Quotes show whitespace at the ends, and empty text.
pub(super) fn code(text: &str) -> String {
    let text = visible(text);
    if text.is_empty() || text.trim() != text {
        return code(&format!("\"{text}\""));
    }
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

/// Returns a text with a capital first letter.
pub(super) fn capitalize_first(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

pub(super) fn value(value: &Scalar) -> String {
    code(&value.to_string())
}

/// Returns a link; `words` are Markdown.
pub(super) fn markdown_link(words: &str, to: &str) -> String {
    format!("[{words}]({to})")
}

/// Writes a paragraph after an empty line.
pub(super) fn write_paragraph(out: &mut String, words: &str) {
    out.push('\n');
    write_wrapped(out, words, "", "");
}

/// Writes a block of code in a language, with special characters escaped.
pub(super) fn write_code_block(
    out: &mut String,
    language: &str,
    rows: impl Iterator<Item = String>,
) {
    let rows: Vec<String> = rows.map(|row| visible(&row)).collect();
    let runs = rows
        .iter()
        .flat_map(|row| row.split(|c| c != '`'))
        .map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let _ = writeln!(out, "\n{fence}{language}\n{}\n{fence}", rows.join("\n"));
}

pub(super) fn write_bullets(out: &mut String, items: impl IntoIterator<Item = String>) {
    for (place, words) in items.into_iter().enumerate() {
        out.push_str(if place == 0 { "\n" } else { "" });
        write_wrapped(out, &words, "- ", "  ");
    }
}

/// Writes lines of at most the width. Code is not broken, and no line begins like an item of a list.
fn write_wrapped(out: &mut String, words: &str, first: &str, others: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in split_at_spaces(words) {
        let fits = line.chars().count() + 1 + word.chars().count() <= WIDTH;
        let is_mark = matches!(word, "-" | "+" | "*")
            || word.starts_with('#')
            || word.ends_with(['.', ')']) && word.len() < 4;
        if is_empty {
            line.push_str(word);
        } else if fits || is_mark {
            line.push(' ');
            line.push_str(word);
        } else {
            out.push_str(&line);
            out.push('\n');
            line = format!("{others}{word}");
        }
        is_empty = false;
    }
    out.push_str(&line);
    out.push('\n');
}

/// Returns the pieces between spaces; code is a single piece, with its spaces.
fn split_at_spaces(words: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut in_code) = (0, false);
    for (at, c) in words.char_indices() {
        match c {
            '`' => in_code = !in_code,
            ' ' if !in_code => {
                pieces.extend(words.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.extend(words.get(start..));
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_names_become_code_and_nothing_else_does() {
        assert_eq!(
            to_markdown("cudaSetDevice(0) returns CUDA_SUCCESS."),
            "`cudaSetDevice(0)` returns `CUDA_SUCCESS`."
        );
        assert_eq!(
            to_markdown("CUDA 12 and libcudart, on cuInit's way"),
            "CUDA 12 and libcudart, on `cuInit`'s way"
        );
        assert_eq!(
            to_markdown("fork, mark, cut; setenv, SIGSEGV"),
            "fork, mark, cut; `setenv`, `SIGSEGV`"
        );
        assert_eq!(
            to_markdown("`0x1` is 0 < 1 | 2 * 3"),
            "`0x1` is 0 &lt; 1 | 2 \\* 3"
        );
        assert_eq!(to_markdown("an open ` mark"), "an open \\` mark");
    }

    #[test]
    fn code_shows_blanks() {
        assert_eq!(
            [" 1,0", "", "a|b", "a`b"].map(code),
            ["`\" 1,0\"`", "`\"\"`", "`a|b`", "`` a`b ``"]
        );
    }

    #[test]
    fn lines_are_short_and_code_is_whole() {
        let mut out = String::new();
        let words = format!(
            "{} `a b c` - {}",
            "word ".repeat(19).trim(),
            "word ".repeat(30).trim()
        );
        write_wrapped(&mut out, &words, "- ", "  ");
        assert!(out.lines().all(|line| line.len() <= WIDTH), "{out}");
        assert!(
            out.lines()
                .skip(1)
                .all(|line| line.starts_with("  ") && !line.starts_with("  -")),
            "{out}"
        );
        assert!(out.contains("`a b c` -"), "{out}");
    }
}
