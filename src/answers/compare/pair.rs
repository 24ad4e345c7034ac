//! Finds the entry of B for each entry of A.

use std::collections::BTreeSet;

use super::comparison::{CompareError, Comparison, Only, Relation};
use crate::difference::side_by_side;
use cuda_pitfalls_core::text::counts::listed;

/// A scenario of a report or a row of a survey, with the key that it is matched by.
pub(super) struct ComparedEntry<'a, T> {
    /// Name that identifies the entry, in addition to the libcudart.
    pub(super) name: String,
    pub(super) libcudart: Option<String>,
    /// Reason why it has no results; `None` if it was measured.
    pub(super) unmeasured: Option<String>,
    pub(super) item: &'a T,
}

pub(super) struct Paired<'a, T> {
    /// Entries that both have measured, in the order of A.
    pub(super) both: Vec<(ComparedEntry<'a, T>, ComparedEntry<'a, T>)>,
    pub(super) only_in_a: Vec<Only>,
    pub(super) only_in_b: Vec<Only>,
    /// Number of entries that neither document has measured.
    pub(super) in_neither: usize,
    /// The libcudarts that were compared with each other.
    pub(super) across: Option<[String; 2]>,
}

/// Matches entries by name and libcudart. Two versions are compared with each other if the caller requests it, or if
/// each document has only one: in that case the user changed the version and wants to see the effect.
pub(super) fn pair_entries<'a, T>(
    mut a: Vec<ComparedEntry<'a, T>>,
    mut b: Vec<ComparedEntry<'a, T>>,
    versions: Option<(String, String)>,
) -> Result<Paired<'a, T>, CompareError> {
    let (has_a, has_b) = (known(&a), known(&b));
    let across = match versions {
        Some((one, other)) => {
            keep_version("A", &mut a, &has_a, &one)?;
            keep_version("B", &mut b, &has_b, &other)?;
            Some([one, other])
        }
        None => match (single_version(&has_a), single_version(&has_b)) {
            (Some(one), Some(other)) if one != other => Some([one, other]),
            _ => None,
        },
    };
    let (mut both, mut only_in_a, mut only_in_b, mut in_neither) =
        (Vec::new(), Vec::new(), Vec::new(), 0);
    for pair in side_by_side([a, b], |entry: &ComparedEntry<'a, T>| match across {
        None => (entry.name.clone(), entry.libcudart.clone()),
        Some(_) => (entry.name.clone(), None),
    }) {
        match pair {
            [Some(a), Some(b)] if a.unmeasured.is_none() && b.unmeasured.is_none() => {
                both.push((a, b))
            }
            [Some(a), b] if a.unmeasured.is_none() => only_in_a.push(only_in_one(a, b)),
            [a, Some(b)] if b.unmeasured.is_none() => only_in_b.push(only_in_one(b, a)),
            _ => in_neither += 1,
        }
    }
    if across.is_none() {
        only_in_a = by_version(only_in_a, &has_b);
        only_in_b = by_version(only_in_b, &has_a);
    }
    Ok(Paired {
        both,
        only_in_a,
        only_in_b,
        in_neither,
        across,
    })
}

/// Returns an entry that only one document has measured; `other` is the entry of the other document, if it has one.
fn only_in_one<T>(entry: ComparedEntry<'_, T>, other: Option<ComparedEntry<'_, T>>) -> Only {
    let reason = other.and_then(|other| other.unmeasured);
    Only {
        name: Some(entry.name),
        libcudart: entry.libcudart,
        reason,
        count: 1,
    }
}

/// Combines all entries on a libcudart that the other document does not have into one entry.
fn by_version(all: Vec<Only>, other: &BTreeSet<String>) -> Vec<Only> {
    let mut kept: Vec<Only> = Vec::new();
    for only in all {
        if only
            .libcudart
            .as_ref()
            .is_none_or(|version| other.contains(version))
        {
            kept.push(only);
            continue;
        }
        match kept
            .iter_mut()
            .find(|known| known.name.is_none() && known.libcudart == only.libcudart)
        {
            Some(known) => known.count += only.count,
            None => kept.push(Only {
                name: None,
                reason: None,
                ..only
            }),
        }
    }
    kept
}

fn known<T>(entries: &[ComparedEntry<'_, T>]) -> BTreeSet<String> {
    entries
        .iter()
        .filter_map(|entry| entry.libcudart.clone())
        .collect()
}

fn single_version(versions: &BTreeSet<String>) -> Option<String> {
    if versions.len() == 1 {
        versions.first().cloned()
    } else {
        None
    }
}

fn keep_version<T>(
    side: &'static str,
    entries: &mut Vec<ComparedEntry<'_, T>>,
    has: &BTreeSet<String>,
    version: &str,
) -> Result<(), CompareError> {
    entries.retain(|entry| entry.libcudart.as_deref() == Some(version));
    if !entries.is_empty() {
        return Ok(());
    }
    Err(CompareError::Libcudart {
        side,
        version: version.to_string(),
        has: listed(has, "no version at all"),
    })
}

impl Comparison {
    pub(super) fn with<T>(
        mut self,
        [a, b]: [Vec<ComparedEntry<'_, T>>; 2],
        versions: Option<(String, String)>,
        compare: impl Fn(&T, &T) -> Relation,
    ) -> Result<Comparison, CompareError> {
        let paired = pair_entries(a, b, versions)?;
        (self.only_in_a, self.only_in_b) = (paired.only_in_a, paired.only_in_b);
        (self.in_neither, self.libcudart) = (paired.in_neither, paired.across);
        for (one, other) in paired.both {
            let version = match self.libcudart {
                None => one.libcudart,
                Some(_) => None,
            };
            self.add_entry(one.name, version, compare(one.item, other.item));
        }
        Ok(self)
    }
}
