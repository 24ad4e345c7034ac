//! Differences between documents by subject: a question, a case, a step, a fact. This module compares two reports, two
//! surveys, two traces, two fleets, and a machine with the usual result.

use std::collections::HashMap;
use std::hash::Hash;

/// The value of each document under each key, in the order in which the keys first occur. If a document has a key twice,
/// the first value counts.
pub(crate) fn side_by_side<T, K: Eq + Hash, const N: usize>(
    documents: [impl IntoIterator<Item = T>; N],
    key: impl Fn(&T) -> K,
) -> Vec<[Option<T>; N]> {
    let mut rows: Vec<[Option<T>; N]> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (document, things) in documents.into_iter().enumerate() {
        for thing in things {
            let place = *places.entry(key(&thing)).or_insert(rows.len());
            if place == rows.len() {
                rows.push([const { None }; N]);
            }
            rows[place][document].get_or_insert(thing);
        }
    }
    rows
}

/// Returns the keys whose values differ between documents, each with its value in every document: `None` if a document
/// has no value for it.
pub(crate) fn differing_values<K: Eq + Hash + Clone, V: PartialEq, const N: usize>(
    documents: [impl IntoIterator<Item = (K, V)>; N],
) -> Vec<(K, [Option<V>; N])> {
    let mut differing = Vec::new();
    for row in side_by_side(documents, |(key, _)| key.clone()) {
        let mut known = None;
        let values = row.map(|said| {
            let (key, value) = said?;
            known = Some(key);
            Some(value)
        });
        if let Some(key) = known
            && values.windows(2).any(|pair| pair[0] != pair[1])
        {
            differing.push((key, values));
        }
    }
    differing
}
