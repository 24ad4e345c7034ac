//! What is known of the line, the call and the variable of an event.

use super::proof;
use crate::block::{Block, Entry, Span, Text};
use cuda_pitfalls_answers::known::{Known, KnownEntry};
use cuda_pitfalls_trace::{EventKind, Frame, MODULE, TraceEvent};

/// The entries about an event that have a page.
pub(super) fn about(event: &TraceEvent) -> impl Iterator<Item = &'static KnownEntry> {
    let variable = if let EventKind::Variable { name, .. } = &event.what {
        name
    } else {
        ""
    };
    let ids = [
        format!("variable/{variable}"),
        format!("call/{}", event.call),
    ];
    let named = ids
        .into_iter()
        .filter_map(|id| Known::embedded().entry(&id));
    named
        .chain(event.stack.entry().and_then(line))
        .filter(|entry| !entry.page.is_empty())
}

/// The line of Python without an argument that calls the function of a frame.
fn line(frame: &Frame) -> Option<&'static KnownEntry> {
    let name = frame.name();
    let (before, function) = match name.rsplit_once('.') {
        _ if frame.function == MODULE => ("line/import ", name.as_str()),
        Some((class, "__init__")) => ("line/", class),
        Some((class, "__enter__")) => ("line/with ", class),
        _ => ("line/", name.as_str()),
    };
    let entries = Known::embedded().entries.iter();
    let meant = entries.filter(|it| {
        it.id
            .strip_prefix(before)
            .is_some_and(|known| is_given_out_as(function, known))
    });
    // A function that is given out at its own place, and not only above it, has the longest name.
    meant.max_by_key(|entry| entry.id.len())
}

/// Whether a package gives a function out by this name: where the function is, or above the module or the private
/// package in which it is, as `torch.cuda.mem_get_info` is in `torch.cuda.memory`.
fn is_given_out_as(function: &str, known: &str) -> bool {
    let mut parts = known.match_indices('.').map(|(dot, _)| known.split_at(dot));
    function == known
        || parts.any(|(package, own)| {
            let module = function
                .strip_prefix(package)
                .and_then(|rest| rest.strip_suffix(own));
            module.is_some_and(|it| {
                it.starts_with("._") || it.starts_with('.') && it.matches('.').count() == 1
            })
        })
}

/// What an entry is about and its page, with a link to the section about it.
pub(super) fn link(entry: &KnownEntry) -> Text {
    let page = Span::Link {
        text: entry.page.clone(),
        to: format!("#{}", anchor(entry)),
    };
    Text::join(entry.names.first().map(Text::code), "")
        .then(" in ")
        .then(page)
}

/// What was measured, the page that has it, and the questions about it.
pub(super) fn section(entry: &KnownEntry) -> Block {
    let questions = entry
        .scenarios
        .iter()
        .map(|name| Text::from(Span::Strong(name.clone())).then(proof::answer(name)));
    let questions = (!entry.scenarios.is_empty()).then(|| Block::list(questions));
    let body = [Block::paragraph(&entry.sentence)]
        .into_iter()
        .chain(questions)
        .collect();
    let (title, aside) = (Text::join(entry.names.first(), ""), entry.page.clone());
    Block::Entry(Entry {
        id: anchor(entry),
        title,
        aside,
        body,
        ..Entry::default()
    })
}

fn anchor(entry: &KnownEntry) -> String {
    entry.id.replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_the_name_that_its_package_gives_it() {
        for (function, file, found) in [
            (
                "mem_get_info",
                "torch/cuda/memory",
                Some("line/torch.cuda.mem_get_info"),
            ),
            ("devices", "jax/_src/xla_bridge", Some("line/jax.devices")),
            (
                "Device.__enter__",
                "cupy/cuda/device",
                Some("line/with cupy.cuda.Device"),
            ),
            (
                "is_available",
                "cupy/cuda/__init__",
                Some("line/cupy.cuda.is_available"),
            ),
            ("<module>", "torch/__init__", Some("line/import torch")),
            // It is another function of this name.
            ("manual_seed", "torch/cuda/random", None),
        ] {
            let frame = Frame::python(
                function,
                &format!("/usr/lib/python3/site-packages/{file}.py"),
                1,
            );
            assert_eq!(
                line(&frame).map(|entry| entry.id.as_str()),
                found,
                "{function}"
            );
        }
    }
}
