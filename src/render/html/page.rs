//! The frame of every page: one file that loads nothing. The page is stricter than it needs to be: the policy in its
//! head forbids whatever escaping might have let through.

use cuda_pitfalls_core::text::escape::escape_html;
use data_encoding::BASE64;

/// Content security policy of a page without scripts: it loads nothing.
pub(crate) const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("style.css");

/// Returns the content security policy of a page that runs this script and no other.
pub(crate) fn script_policy(script: &str) -> String {
    let digest = BASE64.encode(&hmac_sha256::Hash::hash(script.as_bytes()));
    format!("{POLICY}; script-src 'sha256-{digest}'")
}

/// Returns the page up to its body; `style` is specific to this page.
pub(crate) fn page_head(policy: &str, title: &str, style: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n",
        escape_html(title)
    )
}

/// Returns a part of an address: every byte is encoded, except unreserved ones and these characters.
pub(crate) fn percent_encoded(text: &str, plain: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte if plain.as_bytes().contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// Returns an element with its content, which is not escaped here, and without a class if that is empty.
pub(crate) fn element(tag: &str, class: &str, inner: &str) -> String {
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    format!("<{tag}{class}>{inner}</{tag}>")
}

pub(crate) fn paragraph(class: &str, text: &str) -> String {
    element("p", class, &escape_html(text)) + "\n"
}

/// Returns an element that shows `inner` when its summary is opened; nothing is escaped here.
pub(crate) fn fold_element(summary: &str, inner: &str) -> String {
    format!(
        "<details><summary>{}</summary>{inner}</details>\n",
        escape_html(summary)
    )
}

pub(crate) const END: &str = "</body>\n</html>\n";
