//! An error in a file: its description, its location, and a suggestion.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::text::escape::{is_active_character, terminal};

/// An error in a file, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the file in messages.
    pub file: String,
    /// The place of the error, in bytes of the source.
    pub span: Range<usize>,
    /// The error.
    pub message: String,
    /// The most similar valid text, or the valid texts.
    pub help: Option<String>,
    /// Another place that explains the error, with a few words about it.
    pub context: Option<(Range<usize>, String)>,
}

impl Diagnostic {
    /// Returns the error with its source lines, in the style of rustc; without a newline at the end.
    pub fn render(&self, source: &str, styled: bool) -> String {
        let shown = printable_source(source);
        let primary = AnnotationKind::Primary.span(clamp_span(source, &self.span));
        let context = self.context.as_ref().map(|(span, label)| {
            AnnotationKind::Context
                .span(clamp_span(source, span))
                .label(terminal(label))
        });
        let snippet = Snippet::source(shown.as_str())
            .path(terminal(&self.file))
            .annotation(primary)
            .annotations(context);
        let help = self
            .help
            .as_ref()
            .map(|help| Level::HELP.message(terminal(help)));
        let group = Level::ERROR
            .primary_title(terminal(&self.message))
            .element(snippet)
            .elements(help);
        let renderer = if styled {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group])
    }

    /// `file:line:column: message`, for editors and logs.
    pub fn line(&self, source: &str) -> String {
        let (line, column) = place(source, self.span.start);
        format!(
            "{}:{line}:{column}: {}",
            terminal(&self.file),
            terminal(&self.message)
        )
    }
}

/// Returns a source that is safe to print on a terminal. Each active character becomes as many `?` as it has bytes, so
/// that spans of the source stay valid. Tabs and line breaks are kept: they are part of the layout of a file.
fn printable_source(source: &str) -> String {
    let mut shown = String::with_capacity(source.len());
    let mut rest = source.chars().peekable();
    while let Some(letter) = rest.next() {
        let is_layout =
            matches!(letter, '\n' | '\t') || letter == '\r' && rest.peek() == Some(&'\n');
        if is_layout || !is_active_character(letter) {
            shown.push(letter);
        } else {
            shown.push_str(&"?".repeat(letter.len_utf8()));
        }
    }
    shown
}

/// Returns the line and the column of a byte, both counted from 1; the column counts characters.
pub fn place(source: &str, offset: usize) -> (u32, u32) {
    let before = &source[..floor_char_boundary(source, offset)];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() as u32 + 1,
        before[start..].chars().count() as u32 + 1,
    )
}

/// Limits a span to the source and to complete characters, so that rendering cannot fail.
fn clamp_span(source: &str, span: &Range<usize>) -> Range<usize> {
    let start = floor_char_boundary(source, span.start);
    start..floor_char_boundary(source, span.end).max(start)
}

fn floor_char_boundary(source: &str, offset: usize) -> usize {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Returns the most similar name, if it is similar enough.
pub fn nearest_name<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // Otherwise every word of two letters would be similar to every other.
    nearest_within(word, word.chars().count() / 3, names)
}

/// The longest word, in characters, that is compared with known names: the longest of ours has 54. Comparing two words
/// takes as long as the product of their lengths, and a file has as many words as its author likes.
const LONGEST_MISSPELT: usize = 100;

/// Returns the most similar name within this number of changed characters, ignoring case.
pub fn nearest_within<'n>(
    word: &str,
    reach: usize,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let lower = word.to_lowercase();
    let length = lower.chars().count();
    if length > LONGEST_MISSPELT {
        return None;
    }
    let mut nearest = None;
    for name in names {
        // Each character more or less is a change.
        if name.chars().count().abs_diff(length) > reach {
            continue;
        }
        let distance = strsim::damerau_levenshtein(&lower, &name.to_lowercase());
        if distance <= reach && nearest.is_none_or(|(least, _)| distance < least) {
            nearest = Some((distance, name));
        }
    }
    nearest.map(|(_, name)| name)
}

/// Returns the question at the end of a message.
pub fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// Returns the help for an unknown word: the most similar name, or the known names.
pub fn suggest_name<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(name) = nearest_name(word, names.iter().copied()) {
        return Some(did_you_mean(name));
    }
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    // A longer list would hide the message.
    (1..=12)
        .contains(&listed.len())
        .then(|| format!("known: {}", listed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_near() {
        let names = ["cuInit", "cuDeviceGetCount", "cuCtxCreate_v2"];
        assert_eq!(
            nearest_name("cuDeviceGetCnt", names),
            Some("cuDeviceGetCount")
        );
        assert_eq!(nearest_name("CUINIT", names), Some("cuInit"));
        assert_eq!(nearest_name("cuCtxCreate", names), Some("cuCtxCreate_v2"));
        assert_eq!(nearest_name("frobnicate", names), None);
        let long = "x".repeat(LONGEST_MISSPELT);
        assert_eq!(
            nearest_name(&long, [format!("{long}y").as_str()]),
            Some(format!("{long}y").as_str())
        );
        assert_eq!(nearest_name(&format!("{long}y"), [long.as_str()]), None);
    }

    #[test]
    fn hostile_lines_are_shown_as_escapes_with_the_mark_in_place() {
        let source = "a = 1\r\n\tb = \"\x1b[2J\u{202e}\u{9b}m\" x\n";
        let at = source.find('x').unwrap();
        let file = "a\x1bb.toml".to_string();
        let message = "no \x1b[1m".to_string();
        let diagnostic = Diagnostic {
            file,
            span: at..at + 1,
            message,
            help: Some("\u{9b}".to_string()),
            context: None,
        };
        let text = diagnostic.render(source, false);
        assert!(
            !text
                .chars()
                .any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'),
            "{text:?}"
        );
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.iter().find(|line| line.contains("b = ")).unwrap();
        let mark = lines.iter().find_map(|line| line.find('^')).unwrap();
        assert_eq!(shown.as_bytes()[mark], b'x', "{text}");
        assert!(text.contains("?[2J?????m"), "{text}");
        assert_eq!(diagnostic.line(source), "a\\x1bb.toml:2:16: no \\x1b[1m");
    }

    #[test]
    fn a_place_counts_characters_and_survives_wrong_offsets() {
        assert_eq!(place("a\nüb", 4), (2, 2));
        assert_eq!(place("a\nüb", 3), (2, 1));
        assert_eq!(place("a", 99), (1, 2));
    }
}
