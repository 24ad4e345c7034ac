//! The file of `--expect`: strict, every error of the file at once, each at its place.

use std::collections::BTreeMap;

use super::Policy;
use super::word::{GpuWord, PolicyWord};
use cuda_pitfalls_core::source::Diagnostic;
use cuda_pitfalls_core::source::reader::{Reader, get};
use cuda_pitfalls_core::source::tree::{Node, SourceSpan};

const MOST_SOURCE_BYTES: usize = 64 << 10;
const KEYS: [&str; 4] = ["forbid", "max-bytes", "contexts", "exit"];

pub(super) fn read(file: &str, source: &str) -> Result<Policy, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, source, &[]);
    let policy = policy(&mut reader);
    reader.finish(policy)
}

fn policy(reader: &mut Reader<'_>) -> Option<Policy> {
    let entries = reader.top("a file of what is expected", MOST_SOURCE_BYTES)?;
    reader.known_keys(&entries, &KEYS);
    if entries.is_empty() {
        // It would pass whatever the program does.
        reader.error(
            &SourceSpan::at(0..0),
            "this expects nothing",
            Some(format!("known: {}", KEYS.join(", "))),
        );
    }
    let mut policy = Policy::default();
    if let Some(node) = get(&entries, "forbid") {
        for node in reader.list(node)? {
            let Some(text) = reader.text(node) else {
                continue;
            };
            match PolicyWord::parse(text) {
                Ok(word) => policy.forbid.push(word),
                Err(why) => reader.error(&node.place, why.to_string(), None),
            }
        }
    }
    if let Some(node) = get(&entries, "max-bytes") {
        policy.max_bytes = max_bytes(reader, node)?;
    }
    if let Some(node) = get(&entries, "contexts") {
        let nodes = reader.list(node)?;
        policy.contexts = Some(nodes.iter().filter_map(|node| gpu(reader, node)).collect());
    }
    if let Some(node) = get(&entries, "exit") {
        policy.exit = reader
            .integer(node, 0..=255)
            .and_then(|code| i32::try_from(code).ok());
    }
    Some(policy)
}

fn max_bytes(reader: &mut Reader<'_>, node: &Node) -> Option<BTreeMap<GpuWord, u64>> {
    let mut bounds = BTreeMap::new();
    for entry in reader.table(node)? {
        let gpu = named(reader, &entry.key.text, &entry.key.place);
        let bytes = reader
            .bytes(&entry.value)
            .and_then(|bytes| u64::try_from(bytes).ok());
        bounds.extend(gpu.zip(bytes));
    }
    Some(bounds)
}

fn gpu(reader: &mut Reader<'_>, node: &Node) -> Option<GpuWord> {
    let text = reader.text(node)?;
    named(reader, text, &node.place)
}

fn named(reader: &mut Reader<'_>, text: &str, place: &SourceSpan) -> Option<GpuWord> {
    let gpu = GpuWord::parse(text);
    if gpu.is_none() {
        let help = Some("write `gpu0` by NVML index, or `GPU-…` by UUID".to_owned());
        reader.error(place, format!("`{text}` is no GPU"), help);
    }
    gpu
}
