//! The documents of each machine, and its name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::document::FleetMachine;
use super::pool::PooledDocument;

/// Labels that contain the name of a machine, the preferred one first.
pub(super) const NAMES: [&str; 2] = ["node", "host"];
/// Length of a shortened UUID that still distinguishes GPUs: `GPU-8b6c2f00`.
const SHORT: usize = 12;

/// Returns the machine of each document. Reports with the same name belong to the same machine if they share a GPU, or
/// if other reports link them. So a name that was given twice hides no machine.
pub(super) fn document_owners(kept: &[PooledDocument]) -> Vec<DocumentOwner> {
    let called = document_names(kept);
    let linked = Linked::new(kept, &called);
    // Machines by name, each with the smallest UUID of its GPUs.
    let mut machines: HashMap<&str, BTreeMap<usize, &str>> = HashMap::new();
    for (at, (one, name)) in kept.iter().zip(&called).enumerate() {
        let known = machines
            .entry(name)
            .or_default()
            .entry(linked.first(at))
            .or_default();
        if let Some(gpu) = one.digest.machine.gpus.first()
            && (known.is_empty() || gpu.as_str() < *known)
        {
            *known = gpu;
        }
    }
    let mut all: BTreeMap<usize, DocumentOwner> = BTreeMap::new();
    for (name, machines) in &machines {
        all.extend(distinct_owners(name, machines));
    }
    // A label may look like such a name.
    let mut taken = HashMap::new();
    for owner in all.values_mut() {
        owner.name = unique_name(&mut taken, &owner.name);
    }
    (0..kept.len())
        .filter_map(|at| all.get(&linked.first(at)).cloned())
        .collect()
}

/// Returns the name of each document: from a label, or from its GPUs.
fn document_names(kept: &[PooledDocument]) -> Vec<String> {
    // Labels of the documents with these GPUs.
    let mut labelled: HashMap<&[String], BTreeSet<&str>> = HashMap::new();
    for one in kept {
        let machine = &one.digest.machine;
        if !machine.gpus.is_empty() {
            labelled
                .entry(&machine.gpus)
                .or_default()
                .extend(label(machine));
        }
    }
    let all: BTreeSet<&Vec<String>> = kept.iter().map(|one| &one.digest.machine.gpus).collect();
    let mut taken = HashMap::new();
    let mut by_gpus: HashMap<&[String], String> = HashMap::new();
    for gpus in all {
        let name = match gpus.as_slice() {
            [] => continue,
            [one] => short_uuid(one),
            // Commas and spaces are removed, because names are printed in lists.
            [one, other] => format!(
                "{}+{}",
                short_uuid(one),
                short_uuid(other).trim_start_matches("GPU-")
            ),
            [one, rest @ ..] => format!("{}+{}-more", short_uuid(one), rest.len()),
        };
        by_gpus.insert(gpus, unique_name(&mut taken, &name));
    }
    let mut called = Vec::with_capacity(kept.len());
    for one in kept {
        let gpus = one.digest.machine.gpus.as_slice();
        // A report without a label belongs to the machine with the same GPUs, if there is exactly one.
        let only = labelled.get(gpus).and_then(only_one);
        let name = match (label(&one.digest.machine).or(only), by_gpus.get(gpus)) {
            (Some(label), _) => label.to_owned(),
            (None, Some(by_gpus)) => by_gpus.clone(),
            (None, None) => format!("unnamed: {}", one.path),
        };
        called.push(name);
    }
    called
}

/// Returns the only value of a set, or `None` if it has several.
fn only_one<T: Copy + Ord>(all: &BTreeSet<T>) -> Option<T> {
    if all.len() == 1 {
        all.first().copied()
    } else {
        None
    }
}

fn short_uuid(uuid: &str) -> String {
    uuid.chars().take(SHORT).collect()
}

/// Returns a name, with a number appended if it is already taken.
fn unique_name(taken: &mut HashMap<String, usize>, name: &str) -> String {
    let times = taken.entry(name.to_owned()).or_default();
    *times += 1;
    if *times > 1 {
        format!("{name} ({times})")
    } else {
        name.to_owned()
    }
}

/// Returns the owners with one name by their first documents. If there are several, the UUID of a GPU is appended to
/// the name.
fn distinct_owners(name: &str, machines: &BTreeMap<usize, &str>) -> Vec<(usize, DocumentOwner)> {
    let mut taken: HashMap<String, usize> = HashMap::new();
    for gpu in machines.values() {
        *taken.entry(short_uuid(gpu)).or_default() += 1;
    }
    let is_shared = machines.len() > 1;
    let mut owners = Vec::new();
    for (first, gpu) in machines {
        let gpu = match short_uuid(gpu) {
            _ if gpu.is_empty() => "no GPU".to_owned(),
            short if taken.get(&short) == Some(&1) => short,
            _ => (*gpu).to_owned(),
        };
        let owner = DocumentOwner {
            name: if is_shared {
                format!("{name} ({gpu})")
            } else {
                name.to_owned()
            },
            first: *first,
            shared_name: is_shared.then(|| name.to_owned()),
        };
        owners.push((*first, owner));
    }
    owners
}

/// A machine that owns documents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DocumentOwner {
    pub(super) name: String,
    /// The machine's first document, by path. A name alone does not identify a machine: a report may claim any name.
    first: usize,
    /// Name in the machine's documents, if another machine's documents have the same name.
    pub(super) shared_name: Option<String>,
}

/// Links between documents, direct or through others.
struct Linked(Vec<usize>);

impl Linked {
    /// Links documents with the same name and a common GPU.
    fn new(kept: &[PooledDocument], called: &[String]) -> Linked {
        let mut linked = Linked((0..kept.len()).collect());
        let mut first_with: HashMap<(&str, &str), usize> = HashMap::new();
        for (at, (one, name)) in kept.iter().zip(called).enumerate() {
            for gpu in &one.digest.machine.gpus {
                let other = *first_with.entry((name, gpu)).or_insert(at);
                linked.link_documents(at, other);
            }
        }
        // Reports that list no GPU belong to the machine with their name, if there is exactly one.
        let (without, with): (Vec<usize>, Vec<usize>) =
            (0..kept.len()).partition(|at| kept[*at].digest.machine.gpus.is_empty());
        let mut with_gpus: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        for at in with {
            with_gpus
                .entry(&called[at])
                .or_default()
                .insert(linked.first(at));
        }
        let mut first_without: HashMap<&str, usize> = HashMap::new();
        for at in without {
            let name = called[at].as_str();
            let only = with_gpus.get(name).and_then(only_one);
            let other = only.unwrap_or_else(|| *first_without.entry(name).or_insert(at));
            linked.link_documents(at, other);
        }
        linked
    }

    /// Returns the first document that a document is linked with.
    fn first(&self, at: usize) -> usize {
        let mut first = at;
        while let Some(next) = self.0.get(first)
            && *next != first
        {
            first = *next;
        }
        first
    }

    fn link_documents(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        if let Some(link) = self.0.get_mut(one.max(other)) {
            *link = one.min(other);
        }
    }
}

/// Returns the name of a machine from its labels.
pub(super) fn label(machine: &FleetMachine) -> Option<&str> {
    let label = NAMES
        .iter()
        .find_map(|name| machine.labels.get(*name))
        .map(String::as_str);
    label.filter(|label| !label.is_empty())
}
