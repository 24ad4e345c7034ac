//! What is wrong with a file, where, and what was probably meant.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// One error of a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the reader of the message knows it.
    pub file: String,
    /// The offending text, in bytes of the source.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What was probably meant, or what is allowed.
    pub help: Option<String>,
    /// Another place that explains this one, with a few words.
    pub context: Option<(Range<usize>, String)>,
}

impl Diagnostic {
    /// The error with the lines it is about, as rustc shows its own; no newline at the end.
    pub fn render(&self, source: &str, styled: bool) -> String {
        let primary = AnnotationKind::Primary.span(within(source, &self.span));
        let context = self
            .context
            .as_ref()
            .map(|(span, label)| AnnotationKind::Context.span(within(source, span)).label(label.as_str()));
        let snippet = Snippet::source(source).path(self.file.as_str()).annotation(primary).annotations(context);
        let help = self.help.as_ref().map(|help| Level::HELP.message(help.as_str()));
        let group = Level::ERROR.primary_title(self.message.as_str()).element(snippet).elements(help);
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }

    /// `file:line:column: message`, for editors and logs.
    pub fn line(&self, source: &str) -> String {
        let (line, column) = place(source, self.span.start);
        format!("{}:{line}:{column}: {}", self.file, self.message)
    }
}

/// The line and the column of a byte, both from 1; the column counts characters.
pub(super) fn place(source: &str, offset: usize) -> (u32, u32) {
    let before = &source[..floor(source, offset)];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (count(before.matches('\n').count() + 1), count(before[start..].chars().count() + 1))
}

/// The span cut down to the source and to whole characters, so that rendering cannot fail.
fn within(source: &str, span: &Range<usize>) -> Range<usize> {
    let start = floor(source, span.start);
    start..floor(source, span.end).max(start)
}

fn floor(source: &str, offset: usize) -> usize {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// The name that was probably meant, if one is near enough to be more than a guess.
pub(crate) fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let lower = word.to_lowercase();
    // Every word of two letters is near every other.
    let reach = word.chars().count() / 3;
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// The help for a word that is none of these names.
pub(super) fn suggest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(name) = nearest(word, names.iter().copied()) {
        return Some(did_you_mean(name));
    }
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    // A longer list would bury the message.
    (1..=12).contains(&listed.len()).then(|| format!("known: {}", listed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_near() {
        let names = ["cuInit", "cuDeviceGetCount", "cuCtxCreate_v2"];
        assert_eq!(nearest("cuDeviceGetCnt", names), Some("cuDeviceGetCount"));
        assert_eq!(nearest("CUINIT", names), Some("cuInit"));
        assert_eq!(nearest("cuCtxCreate", names), Some("cuCtxCreate_v2"));
        assert_eq!(nearest("frobnicate", names), None);
    }

    #[test]
    fn a_place_counts_characters_and_survives_wrong_offsets() {
        assert_eq!(place("a\nüb", 4), (2, 2));
        assert_eq!(place("a\nüb", 3), (2, 1));
        assert_eq!(place("a", 99), (1, 2));
    }
}
