//! Unusual masks, so that the rule is tested on more than the masks it was made from.
//!
//! A mask is put together from the grammar, good and bad entries of every sort, and kept if
//! [`super::parse`] predicts what was wanted of it. A GPU costs a process 200 ms to initialise, so most
//! masks that are kept show none. The same seed gives the same masks, and fewer of them are the first
//! of more.

mod entry;

use std::collections::HashSet;

use self::entry::{Identifier, any, naming, near_miss, stray};
use super::template::Template;
use super::{InitStatus, parse};
use crate::random::Random;

/// Longer values are thrown away; how long one may be at all is another question.
const MOST_BYTES: usize = 4096;

/// Lists have at most this many entries, but for commas inside an entry.
const MOST_ENTRIES: usize = 64;

/// What separates numbers elsewhere.
const SEPARATORS: [&str; 14] = [";", ":", " ", "\n", "\t", "|", "/", "-", "..", " , ", ", ", ",,", "，", "+"];

/// What a mask is meant to bring about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    /// `CUDA_ERROR_NO_DEVICE`.
    None,
    /// `CUDA_ERROR_INVALID_DEVICE`.
    Twice,
    /// One visible GPU.
    One,
    /// Several.
    Several,
}

/// So many masks for a machine with so many GPUs, no two of which are the same.
///
/// By the rule 6 of 10 show no GPU, 3 show one, and 1 shows several, where there are several. There are
/// fewer than asked for only if a very small variety is used up.
pub fn generate(seed: u64, count: usize, gpus: usize) -> Vec<Template> {
    let mut random = Random::new(seed);
    let uuids = stand_ins(gpus);
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let mut wish = Wish::drawn(&mut random, gpus);
    let mut tries = count.saturating_mul(1000);
    while found.len() < count && tries > 0 {
        tries -= 1;
        let Ok(template) = Template::parse(&candidate(&mut random, wish, gpus)) else { continue };
        let Ok(mask) = template.fill(&uuids) else { continue };
        if mask.len() <= MOST_BYTES && wish.is_met(&mask, &uuids) && known.insert(mask) {
            found.push(template);
            wish = Wish::drawn(&mut random, gpus);
        }
    }
    found
}

/// UUIDs that no GPU has, to predict with: which they are makes no difference, only that they differ.
fn stand_ins(gpus: usize) -> Vec<String> {
    let mut random = Random::new(0);
    let uuid = |_| {
        let digits = format!("{:016x}{:016x}", random.next(), random.next());
        let (a, rest) = digits.split_at(8);
        let (b, rest) = rest.split_at(4);
        let (c, rest) = rest.split_at(4);
        let (d, e) = rest.split_at(4);
        format!("GPU-{a}-{b}-{c}-{d}-{e}")
    };
    (0..gpus).map(uuid).collect()
}

impl Wish {
    fn drawn(random: &mut Random, gpus: usize) -> Wish {
        match random.below(100) {
            _ if gpus == 0 => Wish::None,
            0..45 => Wish::None,
            45..60 => Wish::Twice,
            90.. if gpus > 1 => Wish::Several,
            90.. => Wish::None,
            _ => Wish::One,
        }
    }

    fn is_met(self, mask: &str, uuids: &[String]) -> bool {
        let answer = parse(Some(mask), None, uuids);
        match self {
            Wish::None => answer.status == InitStatus::NoDevice,
            Wish::Twice => answer.status == InitStatus::InvalidDevice,
            Wish::One => answer.gpus.len() == 1,
            Wish::Several => answer.gpus.len() > 1,
        }
    }
}

/// A mask that will probably do what is wished.
fn candidate(random: &mut Random, wish: Wish, gpus: usize) -> String {
    if random.percent(12) {
        return separated(random, gpus);
    }
    let kind = random.pick([
        Identifier::Ordinal,
        Identifier::Ordinal,
        Identifier::Ordinal,
        Identifier::Uuid,
        Identifier::Uuid,
    ]);
    let order = random.shuffled(gpus);
    let named = match wish {
        Wish::None => 0,
        Wish::One => 1,
        Wish::Twice => random.between(1, gpus),
        Wish::Several => random.between(2.min(gpus), gpus),
    };
    let mut entries: Vec<String> = order.iter().take(named).map(|gpu| naming(random, *gpu, kind)).collect();
    if wish == Wish::Twice {
        let again = order.get(random.below(named)).copied().unwrap_or(0);
        entries.push(naming(random, again, kind));
    }
    let more = match random.below(100) {
        0..45 => 0,
        45..92 => random.between(1, 5),
        _ => random.between(6, MOST_ENTRIES),
    };
    if wish == Wish::None || more > 0 {
        entries.push(if random.percent(40) { near_miss(random, gpus, kind) } else { stray(random, gpus) });
    }
    // What comes behind the end of the list should be what would count before it.
    entries.extend((1..more).map(|_| any(random, gpus)));
    entries.truncate(MOST_ENTRIES);
    entries.join(",")
}

/// Good entries with something else than a comma between them.
fn separated(random: &mut Random, gpus: usize) -> String {
    let separator = random.pick(SEPARATORS);
    let entries = random.between(1, 4);
    (0..entries).map(|_| any(random, gpus)).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests;
