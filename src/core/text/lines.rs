//! Text in lines of a given width, measured in terminal columns.
//!
//! Lines are broken between words; a word is broken only if it is longer than a line, and an address never.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::escape::terminal;

/// The width of text in a document.
pub const WIDTH: usize = 100;

/// The narrowest width of any layout.
pub const NARROWEST: usize = 40;

/// A space that does not allow a line break. It is printed like any other space.
pub const UNBROKEN: char = '\u{a0}';

/// Returns the number of columns that a text takes.
pub fn display_columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Returns a text after `head`, broken between words, with later lines indented to its first word. Foreign characters
/// are escaped.
pub fn sentence(head: &str, text: &str, width: usize) -> String {
    let text = terminal(text);
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    wrap_parts(head, &words, " ", width)
}

/// Joins `parts` after `head`, with later lines indented to the first part. A part is broken, between its words, only
/// if it does not fit on a separate line.
pub fn wrap_parts(head: &str, parts: &[String], between: &str, width: usize) -> String {
    let indent = display_columns(head);
    let room = width.saturating_sub(indent).max(1);
    let mut out = String::new();
    for (place, line) in break_lines(parts, between, room).iter().enumerate() {
        let line = if place == 0 {
            format!("{head}{line}")
        } else {
            format!("{:indent$}{line}", "")
        };
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Returns the words of a text in lines of at most `room` columns.
pub fn words(text: &str, room: usize) -> Vec<String> {
    break_lines(&[text.to_owned()], "", room)
}

fn break_lines(parts: &[String], between: &str, room: usize) -> Vec<String> {
    let options = Options::new(room)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let mut lines: Vec<String> = vec![String::new()];
    for part in parts {
        match lines.last_mut() {
            Some(last)
                if !last.is_empty()
                    && display_columns(last) + display_columns(between) + display_columns(part)
                        <= room =>
            {
                last.push_str(between);
                last.push_str(part);
            }
            last => {
                if last.is_some_and(|last| last.is_empty()) {
                    lines.pop();
                }
                // An address is copied, so it is not broken.
                let of_part = options.clone().break_words(!part.starts_with("https://"));
                lines.extend(textwrap::wrap(part, of_part).into_iter().map(String::from));
            }
        }
    }
    lines
        .iter()
        .map(|line| line.replace(UNBROKEN, " "))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_breaks_between_words_only() {
        let parts = [
            "aaaa bbbb cccc".to_owned(),
            "dddddddddddddddddddddd".to_owned(),
            "e".to_owned(),
        ];
        assert_eq!(
            wrap_parts("> ", &parts, " · ", 24),
            "> aaaa bbbb cccc\n  dddddddddddddddddddddd\n  e\n"
        );
    }

    #[test]
    fn a_word_that_is_longer_than_the_line_is_broken() {
        assert_eq!(
            sentence("> ", "a bbbbbbbbbbbb c", 10),
            "> a\n  bbbbbbbb\n  bbbb c\n"
        );
        assert_eq!(
            sentence("> ", "a bbbbbbbbbbbbbbb c", 10),
            "> a\n  bbbbbbbb\n  bbbbbbb\n  c\n"
        );
        let part = ["aaaa bbbbbbbb cc".to_owned(), "d".to_owned()];
        assert_eq!(
            wrap_parts("> ", &part, " · ", 12),
            "> aaaa\n  bbbbbbbb\n  cc · d\n"
        );
        assert_eq!(words("", 10), [""]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(words("漢字 漢字", 8), ["漢字", "漢字"]);
        assert_eq!(words("漢字漢字", 5), ["漢字", "漢字"]);
    }
}
