//! The join of documents by key, on which comparisons of two documents, of machines and of fleets are built.

use std::hash::Hash;

use cuda_pitfalls_core::text::counts::grouped;

/// The value of each document under each key, in the order in which the keys first occur. If a document has a key twice,
/// the first value counts.
pub(crate) fn side_by_side<T, K: Eq + Hash + Clone, const N: usize>(
    documents: [impl IntoIterator<Item = T>; N],
    key: impl Fn(&T) -> K,
) -> Vec<[Option<T>; N]> {
    let things = documents.into_iter().enumerate().flat_map(|(at, things)| things.into_iter().map(move |it| (at, it)));
    let rows = grouped(things.map(|(at, thing)| (key(&thing), (at, thing)))).into_iter().map(|(_, things)| {
        let mut row = [const { None }; N];
        for (at, thing) in things {
            row[at].get_or_insert(thing);
        }
        row
    });
    rows.collect()
}
