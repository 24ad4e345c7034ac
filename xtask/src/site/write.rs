//! Texts as Markdown and HTML. Text of others is escaped here.

use std::fmt::Write as _;

use cuda_pitfalls::text::escape::visible;

/// A text for a heading or the table of contents, in which mdBook's search would read angle brackets as HTML.
pub(super) fn title(text: &str) -> String {
    let shown = |c| match c {
        '<' => '‹',
        '>' => '›',
        c => c,
    };
    text.split_whitespace().map(visible).collect::<Vec<_>>().join(" ").chars().map(shown).collect()
}

/// A text as Markdown that means nothing but itself.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '{' | '}' | '#' | '|' | '~' | '!' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// A heading with an anchor of its own.
pub(super) fn heading(out: &mut String, level: usize, words: &str, anchor: &str) {
    let _ = writeln!(out, "\n{} {} {{#{anchor}}}\n", "#".repeat(level), plain(&title(words)));
}

/// Text as code, whatever is in it, which holds in a cell of a table too. Markdown reads on between tags of HTML.
pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", plain(text))
}

/// A block of code, whatever is in it.
pub(super) fn block(out: &mut String, language: &str, text: &str) {
    let rows: Vec<String> = text.lines().map(visible).collect();
    let longest = rows.iter().flat_map(|row| row.split(|c| c != '`')).map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    let _ = writeln!(out, "\n{fence}{language}\n{}\n{fence}\n", rows.join("\n"));
}

/// A text as an anchor or as a name of a file: letters, digits, dots, underscores and single hyphens.
pub(super) fn slug(text: &str) -> String {
    let kept = text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { ' ' });
    let kept: String = kept.collect();
    let words: Vec<&str> = kept.split_whitespace().map(|word| word.trim_matches('.')).collect();
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// Anchors for texts on one page, each once, in their order.
pub(super) fn slugs<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut used = std::collections::BTreeSet::new();
    let unused = |text: &str| {
        let first = slug(text);
        let numbered = (2..).map(|number| format!("{first}-{number}"));
        let mut candidates = std::iter::once(first.clone()).chain(numbered).filter(|it| !used.contains(it));
        let found = candidates.next().unwrap_or_default();
        used.insert(found.clone());
        found
    };
    texts.map(unused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_only_text() {
        assert_eq!(plain("<b>*a*_[x](y)|#"), "&lt;b&gt;\\*a\\*\\_\\[x\\](y)\\|\\#");
        assert_eq!(title("a <b>\n c"), "a ‹b› c");
        assert_eq!(code("__init__.py"), "<code>\\_\\_init\\_\\_.py</code>");
        assert_eq!(slug("DataLoader(pin_memory=True), not iterated"), "DataLoader-pin_memory-True-not-iterated");
        assert_eq!(slug("../../etc/<x>"), "etc-x");
        assert_eq!(slugs(["a b", "a, b", "c"].into_iter()), ["a-b", "a-b-2", "c"]);
    }
}
