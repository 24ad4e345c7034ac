//! The note on a document of a run that is among the published measurements.

use cuda_pitfalls_answers::published::Publication;

use super::Format;
use super::block::Block;
use super::writer::terminal::Screen;
use super::writer::{html, markdown, terminal};

/// Returns the note on the document with this name.
pub(super) fn publication_words(name: &str, publication: Publication) -> String {
    let published = concat!("published with cuda-pitfalls ", env!("CARGO_PKG_VERSION"));
    match publication {
        Publication::Unchanged => format!("{name} is a measurement {published}"),
        Publication::Changed => format!("{name} is CHANGED: not as {published}"),
    }
}

/// Returns a rendered document with the note above it; on a page, below the title. Formats for machines have no place for
/// it.
pub fn with_note(
    text: String,
    format: Format,
    publication: Publication,
    screen: impl Into<Screen>,
) -> String {
    let words = publication_words("This document", publication) + ".";
    let note = [match publication {
        Publication::Unchanged => Block::paragraph(words),
        Publication::Changed => Block::Banner(words),
    }];
    match format {
        Format::Text | Format::TextFull => terminal::write(&note, screen) + "\n" + &text,
        Format::Markdown => markdown::write(&note) + "\n" + &text,
        Format::Html => text.replacen("</h1>\n", &format!("</h1>\n{}", html::write(&note)), 1),
        _ => text,
    }
}
