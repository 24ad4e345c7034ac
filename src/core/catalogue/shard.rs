//! A part of a selection, so that several machines can share the work.

use std::fmt;

use crate::text::counts::parse_digits;

/// The `index`-th of `count` parts, counted from 1: every `count`-th instance of the selection, in its order. Each
/// instance is in exactly one part, and the sizes of two parts differ by at most one. Neighbors are often instances
/// of one scenario and take equally long, so they go to different parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// Parses `INDEX/COUNT`, such as `1/4`; `None` if the part does not exist.
    pub fn parse(text: &str) -> Option<Shard> {
        let (index, count) = text.split_once('/')?;
        let (index, count) = (parse_digits(index)?, parse_digits(count)?);
        (1..=count)
            .contains(&index)
            .then_some(Shard { index, count })
    }

    /// Returns `true` if the instance at this index of the selection is in the part.
    pub fn has(self, instance: usize) -> bool {
        instance % self.count == self.index - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole_without_repeats() {
        for count in 1..9 {
            let parts: Vec<Shard> = (1..=count).map(|index| Shard { index, count }).collect();
            for instance in 0..100 {
                assert_eq!(parts.iter().filter(|part| part.has(instance)).count(), 1);
            }
            let sizes: Vec<usize> = parts
                .iter()
                .map(|part| (0..100).filter(|i| part.has(*i)).count())
                .collect();
            assert!(
                sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                "{sizes:?}"
            );
        }
    }

    #[test]
    fn a_part_is_read_strictly() {
        assert_eq!(Shard::parse("2/4").unwrap().to_string(), "2/4");
        for bad in [
            "", "1", "0/4", "5/4", "1/0", "a/4", "1/4/2", "-1/4", "1/ 4", "+1/4", "/4", "1/",
        ] {
            assert!(Shard::parse(bad).is_none(), "{bad}");
        }
    }
}
