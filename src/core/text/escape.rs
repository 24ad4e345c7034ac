//! Escapes foreign text, with one function per output format.
//!
//! Names, details and the tails of outputs come from scenario files, libraries and other people's reports. Every
//! function here starts from [`visible`], so that every format escapes.

use std::borrow::Cow;

/// Returns the text on one line. Characters with an effect on the output are escaped: control characters, changes of
/// writing direction, invisible characters, and the marks that CI systems interpret as commands in a log.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut before = None;
    while let Some(c) = rest.next() {
        let starts_word = before.is_none_or(|b: char| b.is_whitespace() || b.is_control());
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // A CI system interprets `::` as a command at the beginning of a line, even after whitespace. The position
            // of later line breaks is not known here, so no word may begin with it.
            ':' if starts_word && rest.peek() == Some(&':') => out.push_str("\\x3a"),
            // CI systems also interpret `##[` and `##vso[` as commands, anywhere in a line.
            '#' if before == Some('#')
                && rest.clone().find(|c| !c.is_ascii_alphanumeric()) == Some('[') =>
            {
                out.push_str("\\x23")
            }
            c if is_active_character(c) && (c as u32) < 0x100 => {
                out.push_str(&format!("\\x{:02x}", c as u32))
            }
            c if is_active_character(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
        before = Some(c);
    }
    out
}

/// Returns `true` if a character has an effect instead of being shown.
pub(crate) fn is_active_character(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{e0fff}')
        || (c as u32) & 0xfffe == 0xfffe
}

/// Returns a complete output, with each active character escaped as in JSON, so that a document stays the same. Output
/// formats escape their texts themselves. This function covers what they missed, and JSON, which needs no escape for C1
/// controls and changes of writing direction.
pub fn escape_printed(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_obeyed(c) => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out += &format!("\\u{unit:04x}")),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns the same as [`escape_printed`], except that ANSI colors stay. The text of others in it is already escaped.
pub fn escape_colored(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut out = escape_printed(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let end = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        out += if end.starts_with('m') {
            "\x1b["
        } else {
            "\\u001b["
        };
        out += &escape_printed(piece);
    }
    out
}

fn is_obeyed(c: char) -> bool {
    is_active_character(c) && !matches!(c, '\n' | '\t')
}

/// Escapes text for a terminal.
pub fn terminal(text: &str) -> String {
    visible(text)
}

/// Returns lines for a terminal, without trailing whitespace.
pub fn terminal_lines(text: &str) -> String {
    text.trim_end()
        .lines()
        .map(terminal)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns text with the characters of a table replaced, and a backslash before each of some others.
fn replace_characters(text: &str, table: &[(char, &str)], slashed: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match table.iter().find(|(known, _)| *known == c) {
            Some((_, written)) => out.push_str(written),
            None if slashed.contains(c) => out.extend(['\\', c]),
            None => out.push(c),
        }
    }
    out
}

/// Escapes text for an element or a quoted attribute of HTML or SVG.
pub fn escape_html(text: &str) -> String {
    replace_characters(
        text,
        &[
            ('&', "&amp;"),
            ('<', "&lt;"),
            ('>', "&gt;"),
            ('"', "&quot;"),
            ('\'', "&#39;"),
        ],
        "",
    )
}

/// Escapes text for a cell of a Markdown table. The result is also safe anywhere else on a page.
pub fn escape_markdown(text: &str) -> String {
    // A zero-width space keeps the name after an `@` from being notified.
    let table = [
        ('&', "&amp;"),
        ('<', "&lt;"),
        ('>', "&gt;"),
        ('@', "@&#8203;"),
    ];
    replace_characters(text, &table, "|`*_[]!~\\#$")
}

/// Removes the characters that XML forbids. The XML writer escapes markup.
pub fn escape_xml(text: &str) -> String {
    visible(text)
}

/// Escapes text for the value of a Prometheus label, without the quotes around it.
pub fn escape_prometheus(text: &str) -> String {
    replace_characters(text, &[], "\\\"")
}

/// Escapes text for the message of a GitHub annotation.
pub fn github_message(text: &str) -> String {
    visible(text).replace('%', "%25")
}

/// Escapes text for a property of a GitHub annotation, such as its title.
pub fn github_property(text: &str) -> String {
    github_message(text).replace(':', "%3A").replace(',', "%2C")
}

/// Returns the last lines of a process's output, at most `limit` bytes. Each line is made [`visible`] and gets a bar in
/// front, so that it cannot be mistaken for a line of ours.
pub fn quote_tail(text: &str, limit: usize) -> String {
    let start =
        (text.len().saturating_sub(limit)..text.len()).find(|at| text.is_char_boundary(*at));
    let kept = start
        .and_then(|start| text.get(start..))
        .unwrap_or_default();
    let mut out = String::new();
    for line in kept.lines() {
        out.push_str("| ");
        out.push_str(&visible(line));
        out.push('\n');
    }
    out
}

/// Returns the beginning of a text, at most `limit` bytes; `…` marks what is left out.
pub fn shorten_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub('…'.len_utf8());
    let end = (0..=room)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    match text.get(..end) {
        Some(kept) if limit >= '…'.len_utf8() => format!("{kept}…"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_acts_is_shown_as_an_escape() {
        assert_eq!(visible("a\x1b]52;c;aGk=\x07b"), "a\\x1b]52;c;aGk=\\x07b");
        assert_eq!(
            visible("x\u{9b}31m\u{202e}y\r\nz"),
            "x\\x9b31m\\u{202e}y\\r\\nz"
        );
        assert_eq!(visible("GPU 0: größer ✓"), "GPU 0: größer ✓");
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let shown = visible(&c.to_string());
            assert!(
                !shown.chars().any(|c| c.is_control() || c == '\u{202e}'),
                "{c:?} as {shown:?}"
            );
        }
    }

    #[test]
    fn a_printed_document_is_the_same_document() {
        let text = "\u{9b}31m\u{202e}\u{e0041}\x1b größer\n";
        let document = serde_json::json!({ "a": text }).to_string();
        let shown = escape_printed(&document);
        assert!(!shown.chars().any(is_active_character), "{shown}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap()["a"],
            text
        );
        assert_eq!(escape_printed("a\n\tb"), "a\n\tb");
    }

    #[test]
    fn no_word_is_a_command_of_a_ci_system() {
        assert_eq!(
            visible("::set-output name=x::y"),
            "\\x3a:set-output name=x::y"
        );
        assert_eq!(visible("ok\n ::error::x"), "ok\\n \\x3a:error::x");
        assert_eq!(
            visible("a ##[group]b std::mem"),
            "a #\\x23[group]b std::mem"
        );
        assert_eq!(visible("###[x]"), "##\\x23[x]");
        assert_eq!(
            visible("a ##vso[task.setvariable]b"),
            "a #\\x23vso[task.setvariable]b"
        );
        assert_eq!(visible("## vso[ ##"), "## vso[ ##");
    }

    #[test]
    fn markup_is_taken_literally() {
        assert_eq!(
            escape_html("<img src='' onerror=x>&"),
            "&lt;img src=&#39;&#39; onerror=x&gt;&amp;"
        );
        assert_eq!(
            escape_markdown("a|b`c`<br>@me"),
            "a\\|b\\`c\\`&lt;br&gt;@&#8203;me"
        );
        assert_eq!(escape_prometheus("a\"b\\c\nd"), "a\\\"b\\\\c\\\\nd");
        assert_eq!(github_property("a: 5%, b\r\n"), "a%3A 5%25%2C b\\r\\n");
    }

    #[test]
    fn lines_of_a_tail_stay_behind_their_bar() {
        assert_eq!(
            quote_tail("one\n::error::two", 100),
            "| one\n| \\x3a:error::two\n"
        );
        assert_eq!(quote_tail("größer", 5), "| ßer\n");
        assert_eq!(quote_tail("", 5), "");
    }

    #[test]
    fn shortening_counts_bytes_and_keeps_characters() {
        assert_eq!(shorten_text("context", 7), "context");
        assert_eq!(shorten_text("contexts", 7), "cont…");
        assert_eq!(shorten_text("ßßßß", 6), "ß…");
        assert_eq!(shorten_text("ßßßß", 2), "");
    }
}
