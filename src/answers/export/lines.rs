//! Python lines, parsed as far as necessary to copy them into a file: strings over several lines, and the start of the
//! last statement.

/// Syntax that a character is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Code,
    /// A string that ends with this character; the flag is `true` for triple quotes.
    Text(char, bool),
    Comment,
}

/// Calls `seen` for each character with its position, the syntax that it is part of, and the number of open brackets.
fn scan_code(text: &str, mut seen: impl FnMut(usize, char, Within, usize)) {
    let mut within = Within::Code;
    let mut depth = 0usize;
    let mut skip = 0;
    for (at, c) in text.char_indices() {
        seen(at, c, within, depth);
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let is_thrice = text
            .get(at..)
            .is_some_and(|rest| rest.starts_with(&c.to_string().repeat(3)));
        match (within, c) {
            (Within::Code, '"' | '\'') => {
                skip = if is_thrice { 2 } else { 0 };
                within = Within::Text(c, is_thrice);
            }
            (Within::Code, '#') => within = Within::Comment,
            (Within::Code, '(' | '[' | '{') => depth += 1,
            (Within::Code, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (Within::Text(..), '\\') => skip = 1,
            (Within::Text(quote, true), c) if c == quote && is_thrice => {
                skip = 2;
                within = Within::Code;
            }
            (Within::Text(quote, false), c) if c == quote => within = Within::Code,
            (Within::Comment, '\n') => within = Within::Code,
            _ => {}
        }
    }
}

/// Returns the text with `pad` before each line that is not inside a string.
pub(super) fn indent_lines(text: &str, pad: &str) -> String {
    let mut out = String::from(pad);
    let text = text.trim_end_matches('\n');
    let mut line_begins = false;
    scan_code(text, |_, c, within, _| {
        // An empty line has no content.
        if line_begins && c != '\n' {
            out.push_str(pad);
        }
        line_begins = c == '\n' && !matches!(within, Within::Text(..));
        out.push(c);
    });
    out
}

/// Returns the text before the last statement, and that statement, if it is an expression on its own line or after `;`.
pub(super) fn last_expression(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    let mut last = 0;
    scan_code(text, |at, c, within, depth| {
        if depth == 0 && within == Within::Code && matches!(c, ';' | '\n') {
            last = at + 1;
        }
    });
    let (before, last) = text.split_at(last);
    (before.trim_end_matches([';', '\n', ' ']), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_over_several_lines_keep_their_text() {
        let text = "script = \"\"\"\nimport os\nprint('a')\n\"\"\"\nif x:\n    y = 1";
        let wanted = "    script = \"\"\"\nimport os\nprint('a')\n\"\"\"\n    if x:\n        y = 1";
        assert_eq!(indent_lines(text, "    "), wanted);
    }

    #[test]
    fn a_quote_in_a_string_or_a_comment_ends_nothing() {
        assert_eq!(
            indent_lines("a = \"'\" # don't\nb = 'it\\'s'\nc", " "),
            " a = \"'\" # don't\n b = 'it\\'s'\n c"
        );
    }

    #[test]
    fn the_last_statement_is_found_behind_semicolons_and_lines() {
        assert_eq!(last_expression("a = f(';'); b"), ("a = f(';')", " b"));
        assert_eq!(
            last_expression("import a\na.b(1,\n 2)\n"),
            ("import a", "a.b(1,\n 2)")
        );
        assert_eq!(last_expression("a.b[c; d]"), ("", "a.b[c; d]"));
    }
}
