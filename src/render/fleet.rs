//! The formats of a fleet: the differences between its machines, the most important first.
//!
//! Anybody may have written a document: an index that is out of range is shown as unknown, and all text passes through
//! [`cuda_pitfalls_core::text::escape`].

pub mod changes;
mod html;
mod results;
mod standing;
mod view;
mod words;

#[doc(hidden)]
pub mod fixture;

use crate::writer::terminal::Screen;
use crate::writer::{markdown, terminal};
use cuda_pitfalls_answers::fleet::Fleet;
use view::FleetView;

/// Output formats of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum FleetForm {
    /// A screen: how many machines, who is missing, what differs.
    Text,
    /// A page that loads nothing: what differs, a heat map of machines and questions, a view of each machine.
    Html,
    /// A page for issue trackers and job summaries.
    Markdown,
    /// A file for the textfile collector of a Prometheus node exporter.
    Prometheus,
    /// The document itself, its differences in the order in which every form shows them, the most important first.
    Json,
}

/// Renders a fleet. `screen` is for text. With `docs`, the address of the documentation, pages of pitfalls are links.
///
/// # Errors
/// Returns an error if the fleet cannot be written as JSON.
pub fn render(
    fleet: &Fleet,
    form: FleetForm,
    screen: impl Into<Screen>,
    docs: Option<&str>,
) -> serde_json::Result<String> {
    let text = match form {
        FleetForm::Text => {
            terminal::write(&FleetView::new(fleet, view::TEXT, docs).blocks(), screen)
        }
        FleetForm::Html => html::fleet(fleet, docs),
        FleetForm::Markdown => {
            markdown::write(&FleetView::new(fleet, view::MARKDOWN, docs).blocks())
        }
        FleetForm::Prometheus => results::write_fleet_metrics(fleet),
        FleetForm::Json => serde_json::to_string(fleet)? + "\n",
    };
    Ok(text)
}

#[cfg(test)]
mod tests;
