//! Counting, and counts as people read them.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::str::FromStr;

/// Returns a count with its noun: `1 question`, `3 questions`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let end = if noun.ends_with('s') { "es" } else { "s" };
    format!(
        "{count} {noun}{}",
        if count == N::from(1) { "" } else { end }
    )
}

/// Parses a number that consists of digits. `parse` alone would accept a sign too.
pub fn parse_digits<N: FromStr>(text: &str) -> Option<N> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Returns the distinct items and their counts, in the order of their first occurrence.
pub fn tally_items<T: Eq + Hash + Clone>(all: impl IntoIterator<Item = T>) -> Vec<(T, usize)> {
    let groups = group_by_key(all.into_iter().map(|item| (item, ())));
    groups
        .into_iter()
        .map(|(item, times)| (item, times.len()))
        .collect()
}

/// Returns the values of each key, in any number. Keys and values are in the order of their first occurrence.
pub fn group_by_key<K: Eq + Hash + Clone, V>(
    all: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let (mut order, mut groups) = (Vec::new(), HashMap::<K, Vec<V>>::new());
    for (key, value) in all {
        order.extend((!groups.contains_key(&key)).then(|| key.clone()));
        groups.entry(key).or_default().push(value);
    }
    order
        .into_iter()
        .filter_map(|key| groups.remove_entry(&key))
        .collect()
}

/// Returns the items separated by commas, such as `a, b, c`, or `none` if the list is empty.
pub fn listed<T: Display>(items: impl IntoIterator<Item = T>, none: &str) -> String {
    let words: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if words.is_empty() {
        none.to_owned()
    } else {
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(
            [0, 1, 2].map(|count| counted::<u64>(count, "GPU")),
            ["0 GPUs", "1 GPU", "2 GPUs"]
        );
        assert_eq!(
            [1, 2].map(|count| counted::<u64>(count, "process")),
            ["1 process", "2 processes"]
        );
    }

    #[test]
    fn groups_come_in_the_order_of_their_first() {
        assert_eq!(
            [listed([1, 2], "none"), listed([0; 0], "none")],
            ["1, 2", "none"]
        );
        assert_eq!(tally_items(["b", "a", "b"]), [("b", 2), ("a", 1)]);
        assert_eq!(
            group_by_key([(2, 'x'), (1, 'y'), (2, 'z')]),
            [(2, vec!['x', 'z']), (1, vec!['y'])]
        );
    }
}
