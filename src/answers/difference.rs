//! Differences between documents by what they say something of: a question, a case, a step, a fact. Two reports, two
//! surveys, two fleets, and a machine and what is usual are compared by it.

use std::hash::Hash;

use cuda_pitfalls_core::text::counts::group_by_key;

/// The value of each document under each key, in the order in which the keys first occur. If a document has a key twice,
/// the first value counts.
pub(crate) fn side_by_side<T, K: Eq + Hash + Clone, const N: usize>(
    documents: [impl IntoIterator<Item = T>; N],
    key: impl Fn(&T) -> K,
) -> Vec<[Option<T>; N]> {
    let things = documents
        .into_iter()
        .enumerate()
        .flat_map(|(at, things)| things.into_iter().map(move |thing| (at, thing)));
    let rows = group_by_key(things.map(|(at, thing)| (key(&thing), (at, thing))))
        .into_iter()
        .map(|(_, things)| {
            let mut row = [const { None }; N];
            for (at, thing) in things {
                row[at].get_or_insert(thing);
            }
            row
        });
    rows.collect()
}

/// What documents do not say alike, each by its key with what every one of them says: `None` where it says nothing.
pub(crate) fn differing_values<K: Eq + Hash + Clone, V: PartialEq, const N: usize>(
    documents: [impl IntoIterator<Item = (K, V)>; N],
) -> Vec<(K, [Option<V>; N])> {
    let mut differing = Vec::new();
    for row in side_by_side(documents, |(key, _)| key.clone()) {
        let Some(key) = row.iter().flatten().next().map(|(key, _)| key.clone()) else {
            continue;
        };
        let values = row.map(|one| one.map(|(_, value)| value));
        if values.windows(2).any(|pair| pair[0] != pair[1]) {
            differing.push((key, values));
        }
    }
    differing
}
