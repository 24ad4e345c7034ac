//! Claims with what was measured about them, in several formats.

mod json;
mod markdown;
mod text;
mod words;

use crate::html::document::document;
use cuda_pitfalls_answers::claim::{Evidence, Ledger};

/// What the claims can be printed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum ClaimsFormat {
    /// Article by article, for a terminal.
    Text,
    /// One document.
    Json,
    /// A page with a table per article.
    Markdown,
    /// The same page for a browser, without scripts or links.
    Html,
}

/// Renders claims. The text ends with a newline.
pub fn render(ledger: &Ledger, evidence: &Evidence, format: ClaimsFormat) -> String {
    match format {
        ClaimsFormat::Text => text::page(ledger, evidence),
        ClaimsFormat::Json => format!("{:#}\n", json::document(ledger, evidence)),
        ClaimsFormat::Markdown => markdown::page(ledger, evidence),
        ClaimsFormat::Html => {
            let title = format!("cuda-pitfalls: {}", words::counts(ledger));
            document(&title, &markdown::page(ledger, evidence))
        }
    }
}

#[cfg(test)]
mod tests;
