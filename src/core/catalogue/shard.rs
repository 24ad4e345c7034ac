//! One of several parts of a selection, so that several machines share the work.

use std::fmt;
use std::str::FromStr;

/// The `index`-th of `count` parts, from 1: every `count`-th instance of the selection, in its
/// order. The parts have no instance in common, together they are the whole, and none has more than
/// one instance more than another. Neighbours, which are often instances of one scenario and take
/// equally long, come into different parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// Whether the instance at this index of the selection is in the part.
    pub fn has(self, instance: usize) -> bool {
        instance % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let number = |text: &str| Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok();
        let parts = text.split_once('/').and_then(|(index, count)| Some((number(index)?, number(count)?)));
        match parts {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Shard { index, count }),
            _ => Err("a part and how many parts there are, such as 1/4".to_string()),
        }
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
            let sizes: Vec<usize> = parts.iter().map(|part| (0..100).filter(|i| part.has(*i)).count()).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn a_part_is_read_strictly() {
        assert_eq!("2/4".parse::<Shard>().unwrap().to_string(), "2/4");
        for bad in ["", "1", "0/4", "5/4", "1/0", "a/4", "1/4/2", "-1/4", "1/ 4", "+1/4", "/4", "1/"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
