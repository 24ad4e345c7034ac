//! The frame of every page: one file that loads nothing.
//!
//! The page is stricter than it needs to be: the policy in its head forbids whatever escaping might have let through.

use cuda_pitfalls_core::text::escape::html;

/// What a page without scripts may load: nothing.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The style that pages have in common.
const STYLE: &str = include_str!("style.css");

/// The page as far as its body; `style` is what only this page has.
pub(crate) fn head(policy: &str, title: &str, style: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n",
        html(title)
    )
}

/// The end of a page.
pub(crate) const END: &str = "</body>\n</html>\n";

/// What every page that loads and runs nothing is held to.
#[cfg(test)]
pub(crate) fn assert_inert(page: &str) {
    assert!(page.contains(POLICY));
    for word in ["<script", "<img", "<link", "<iframe", "src=\"", "url(", "http://", "https://", "@import"] {
        assert!(!page.contains(word), "{word}");
    }
    let tags = [
        "table", "tr", "td", "th", "div", "section", "details", "summary", "p", "span", "dl", "svg", "ol", "li", "pre",
        "figure", "caption", "fieldset", "label", "a", "ul", "code", "article",
    ];
    for tag in tags {
        let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}
