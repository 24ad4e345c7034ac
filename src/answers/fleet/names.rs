//! Which documents are of one machine, and what it is called.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::pool::Kept;

/// The labels that name a machine, the first first.
pub(super) const NAMES: [&str; 2] = ["node", "host"];
/// So much of a UUID tells GPUs apart: `GPU-8b6c2f00`.
const SHORT: usize = 12;

/// How machines are called: by a label, or by their GPUs.
pub(super) struct Names {
    /// The labels that documents with these GPUs have.
    labelled: HashMap<String, BTreeSet<String>>,
    /// Short names of GPUs without a label.
    short: HashMap<String, String>,
}

impl Names {
    pub(super) fn of(kept: &[Kept]) -> Names {
        let mut names = Names { labelled: HashMap::new(), short: HashMap::new() };
        for one in kept.iter().filter(|one| !one.digest.gpus.is_empty()) {
            if let Some(label) = label(one) {
                names.labelled.entry(one.digest.gpus.join(",")).or_default().insert(label.to_owned());
            }
        }
        let all: BTreeSet<&Vec<String>> = kept.iter().map(|one| &one.digest.gpus).collect();
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for gpus in all {
            let cut = |uuid: &String| uuid.chars().take(SHORT).collect::<String>();
            let short = match gpus.as_slice() {
                [] => continue,
                [one] => cut(one),
                // Without commas and spaces, because names stand in lists.
                [one, other] => format!("{}+{}", cut(one), cut(other).trim_start_matches("GPU-")),
                [one, rest @ ..] => format!("{}+{}-more", cut(one), rest.len()),
            };
            let times = taken.entry(short.clone()).or_default();
            *times += 1;
            let short = if *times > 1 { format!("{short} ({times})") } else { short };
            names.short.insert(gpus.join(","), short);
        }
        names
    }

    /// The machine of each document. Reports with one name are of one machine where they share a GPU, or are linked by
    /// others that do: a name that was given twice hides nobody.
    pub(super) fn owners(&self, kept: &[Kept]) -> Vec<Owner> {
        let called: Vec<String> = kept.iter().map(|one| self.of_document(one)).collect();
        let linked = Linked::of(kept, &called);
        // By name: the machines, each with the least UUID of its GPUs.
        let mut machines: HashMap<&str, BTreeMap<usize, &str>> = HashMap::new();
        for (at, (one, name)) in kept.iter().zip(&called).enumerate() {
            let known = machines.entry(name).or_default().entry(linked.first(at)).or_default();
            if let Some(gpu) = one.digest.gpus.first().filter(|gpu| known.is_empty() || gpu.as_str() < *known) {
                *known = gpu;
            }
        }
        let mut all: BTreeMap<usize, Owner> =
            machines.iter().flat_map(|(name, machines)| distinct(name, machines)).collect();
        // Somebody's label may look like such a name.
        let mut taken: HashMap<String, usize> = HashMap::new();
        for owner in all.values_mut() {
            let times = taken.entry(owner.name.clone()).or_default();
            *times += 1;
            if *times > 1 {
                owner.name = format!("{} ({times})", owner.name);
            }
        }
        (0..kept.len()).filter_map(|at| all.get(&linked.first(at)).cloned()).collect()
    }

    fn of_document(&self, one: &Kept) -> String {
        if let Some(label) = label(one) {
            return label.to_owned();
        }
        let gpus = one.digest.gpus.join(",");
        let labels = self.labelled.get(&gpus);
        // A report without a label is of the machine with the same GPUs, if there is one such.
        if let Some([label]) = labels.map(|all| all.iter().collect::<Vec<_>>()).as_deref() {
            return (*label).clone();
        }
        self.short.get(&gpus).cloned().unwrap_or_else(|| format!("unnamed: {}", one.path))
    }
}

/// The owners of one name by their first documents: where there are several, the UUID of a GPU stands behind the name.
fn distinct(name: &str, machines: &BTreeMap<usize, &str>) -> Vec<(usize, Owner)> {
    let short = |gpu: &str| gpu.chars().take(SHORT).collect::<String>();
    let mut taken: HashMap<String, usize> = HashMap::new();
    machines.values().for_each(|gpu| *taken.entry(short(gpu)).or_default() += 1);
    let owner = |(first, gpu): (&usize, &&str)| {
        if machines.len() == 1 {
            return (*first, Owner { name: name.to_owned(), first: *first, shared_name: None });
        }
        let short = short(gpu);
        let gpu = match taken.get(&short) {
            _ if gpu.is_empty() => "no GPU".to_owned(),
            Some(1) => short,
            _ => (*gpu).to_owned(),
        };
        (*first, Owner { name: format!("{name} ({gpu})"), first: *first, shared_name: Some(name.to_owned()) })
    };
    machines.iter().map(owner).collect()
}

/// A machine, as the owner of documents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) name: String,
    /// Its first document, by path: a report may claim any name, so a name alone is no identity.
    first: usize,
    /// What its documents call it, where another machine's call that one the same.
    pub(super) shared_name: Option<String>,
}

/// Which documents are linked with one another, directly or by others.
struct Linked(Vec<usize>);

impl Linked {
    /// Documents with one name and a common GPU.
    fn of(kept: &[Kept], called: &[String]) -> Linked {
        let mut linked = Linked::new(kept.len());
        let mut first_with: HashMap<(&str, &str), usize> = HashMap::new();
        for (at, (one, name)) in kept.iter().zip(called).enumerate() {
            for gpu in &one.digest.gpus {
                let other = *first_with.entry((name, gpu)).or_insert(at);
                linked.link(at, other);
            }
        }
        // Reports that list no GPU are of the one machine with their name, if there is just one.
        let (without, with): (Vec<usize>, Vec<usize>) =
            (0..kept.len()).partition(|at| kept[*at].digest.gpus.is_empty());
        let mut with_gpus: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        for at in with {
            with_gpus.entry(&called[at]).or_default().insert(linked.first(at));
        }
        let mut first_without: HashMap<&str, usize> = HashMap::new();
        for at in without {
            let name = called[at].as_str();
            let only = with_gpus.get(name).filter(|all| all.len() == 1).and_then(|all| all.first().copied());
            let other = only.unwrap_or_else(|| *first_without.entry(name).or_insert(at));
            linked.link(at, other);
        }
        linked
    }

    fn new(count: usize) -> Linked {
        Linked((0..count).collect())
    }

    /// The first of those that a document is linked with.
    fn first(&self, at: usize) -> usize {
        let mut at = at;
        while let Some(next) = self.0.get(at).copied().filter(|next| *next != at) {
            at = next;
        }
        at
    }

    fn link(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        if let Some(link) = self.0.get_mut(one.max(other)) {
            *link = one.min(other);
        }
    }
}

fn label(one: &Kept) -> Option<&str> {
    NAMES.iter().find_map(|name| one.digest.labels.get(*name)).map(String::as_str).filter(|label| !label.is_empty())
}
