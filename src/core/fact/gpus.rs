//! Names of GPUs, in files and in observations.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CheckReader, Truth};
use crate::source::reader::is_gpu;
use crate::source::schema::GPU;
use crate::source::tree::{Data, Node, TreeEntry};
use crate::text::counts::listed;
use crate::verdict::Reason;

/// A list of GPUs by plan name (`gpu0`), or `all` or `none`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuList {
    /// Every GPU of the machine, in NVML order.
    All,
    /// No GPU.
    None,
    /// Exactly the named GPUs.
    Named(Vec<String>),
}

/// The mapping from UUIDs to the names of GPUs in an attempt.
#[derive(Clone, Copy, Debug)]
pub struct GpuNames<'a> {
    /// UUIDs in the order of the plan: the first is `gpu0`.
    pub plan: &'a [String],
    /// UUIDs in NVML order.
    pub machine: &'a [String],
}

/// Returns the name of a GPU in a plan. `gpu0` is the first UUID of the plan.
pub(crate) fn gpu_name(plan: &[String], uuid: &str) -> Option<String> {
    let index = plan.iter().position(|known| known == uuid)?;
    Some(format!("gpu{index}"))
}

impl GpuNames<'_> {
    /// Returns the plan's name of a GPU.
    pub(super) fn name(&self, uuid: &str) -> Option<String> {
        gpu_name(self.plan, uuid)
    }

    /// Returns the entries of a table by GPU, one for each GPU. `others` means every GPU of the machine without its own
    /// entry.
    pub(super) fn each<'m, T>(&self, table: &'m BTreeMap<String, T>) -> Vec<(String, &'m T)> {
        let mut by_gpu: Vec<(String, &T)> = Vec::new();
        for (key, value) in table {
            if key == "others" {
                let names = (0..self.plan.len()).map(|index| format!("gpu{index}"));
                by_gpu.extend(
                    names
                        .filter(|name| !table.contains_key(name))
                        .map(|name| (name, value)),
                );
            } else {
                by_gpu.push((key.clone(), value));
            }
        }
        by_gpu
    }
}

impl GpuList {
    pub(super) fn read(file: &mut CheckReader<'_, '_>, node: &Node) -> Option<GpuList> {
        match &node.data {
            Data::Text(word) if word == "all" => Some(GpuList::All),
            Data::Text(word) if word == "none" => Some(GpuList::None),
            Data::List(nodes) => Some(GpuList::Named(
                nodes.iter().filter_map(|node| gpu(file, node)).collect(),
            )),
            _ => {
                let help = Some("such as `[\"gpu0\"]`".to_string());
                file.reader.reject(
                    &node.place,
                    "expected `\"all\"`, `\"none\"` or a list of GPUs",
                    help,
                )
            }
        }
    }

    pub(super) fn words(&self, between: &str) -> String {
        match self {
            GpuList::All => "every GPU".to_string(),
            GpuList::None => "no GPU".to_string(),
            GpuList::Named(names) if names.is_empty() => "no GPU".to_string(),
            GpuList::Named(names) => names.join(between),
        }
    }

    /// Returns the names of the listed GPUs on a machine.
    pub(super) fn names(&self, gpus: &GpuNames<'_>) -> Vec<String> {
        match self {
            GpuList::None => Vec::new(),
            GpuList::Named(names) => names.clone(),
            GpuList::All => gpus
                .machine
                .iter()
                .map(|uuid| gpus.name(uuid).unwrap_or_else(|| uuid.clone()))
                .collect(),
        }
    }
}

pub(super) fn compare_names(
    subject: &str,
    seen: Option<Vec<String>>,
    expected: &[String],
    gpus: &GpuNames<'_>,
) -> Truth {
    let mut uuids = seen
        .iter()
        .flatten()
        .filter(|name| ["GPU-", "MIG-"].iter().any(|form| name.starts_with(form)));
    let unlisted = uuids.find(|uuid| !gpus.machine.contains(uuid)).cloned();
    match seen {
        None => Truth::Unknown(format!("{subject} could not be observed")),
        Some(seen) if seen == expected => Truth::Yes,
        // A MIG instance has its own UUID. If no GPU is expected, the name of an unexpected one does not matter.
        Some(_) if let (Some(unlisted), false) = (unlisted, expected.is_empty()) => {
            let why = format!(
                "{subject} cannot be determined: NVML does not list {unlisted}, perhaps an instance of MIG"
            );
            Truth::Unobservable(Reason::Unobservable, why)
        }
        Some(seen) => Truth::No(format!(
            "{subject} is {}, expected {}",
            listed(seen, "none"),
            listed(expected, "none")
        )),
    }
}

pub(super) fn gpu(file: &mut CheckReader<'_, '_>, node: &Node) -> Option<String> {
    let name = file.reader.text(node)?;
    is_known(file, name, &node.place, false).then(|| name.to_string())
}

/// Reads a table by GPU. `others` is also a valid key.
pub(super) fn by_gpu<T>(
    file: &mut CheckReader<'_, '_>,
    node: &Node,
    read: impl Fn(&mut CheckReader<'_, '_>, &Node) -> Option<T>,
) -> BTreeMap<String, T> {
    let mut map = BTreeMap::new();
    for TreeEntry { key, value } in file.reader.table(node).unwrap_or_default() {
        is_known(file, &key.text, &key.place, true);
        map.extend(read(file, value).map(|value| (key.text.clone(), value)));
    }
    map
}

fn is_known(
    file: &mut CheckReader<'_, '_>,
    name: &str,
    place: &Range<usize>,
    others: bool,
) -> bool {
    let good = is_gpu(name) || (others && name == "others");
    if !good {
        let or_others = if others { ", or `others`" } else { "" };
        let help = Some(format!("GPUs are called `gpu0` to `gpu63`{or_others}"));
        file.reader
            .error(place, format!("`{name}` is not the name of a GPU"), help);
    }
    good
}

pub(super) fn by_gpu_schema(value: Value, description: &str) -> Value {
    json!({
        "description": description,
        "type": "object", "additionalProperties": false,
        "properties": { "gpu0": value, "gpu1": value, "others": value },
        "patternProperties": { GPU: value, "\\$\\{[a-z0-9_]+\\}": value },
    })
}
