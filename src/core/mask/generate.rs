//! Unusual masks, so that the rule is tested on more masks than those it was made from.
//!
//! A mask is made by the grammar from valid and invalid entries of every kind, and kept if [`super::parse`] predicts
//! the outcome that was wanted. A process needs 200 ms to initialise a GPU, so most of the kept masks show no GPU. The
//! same seed gives the same masks, and a smaller count gives the first masks of a larger one.

mod entry;

use std::collections::HashSet;

use self::entry::{Identifier, any, draw_identifier, draw_stray, near_miss};
use super::template::Template;
use super::{InitStatus, parse};
use crate::random::Random;

/// Longer values are discarded. The limit on the length of a mask is another question.
const MOST_BYTES: usize = 4096;

/// The most entries of a list, not counting those that a comma inside an entry makes.
const MOST_ENTRIES: usize = 64;

/// Separators that other lists of numbers use.
const SEPARATORS: [&str; 14] = [
    ";", ":", " ", "\n", "\t", "|", "/", "-", "..", " , ", ", ", ",,", "，", "+",
];

/// The outcome that a mask is meant to have.
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

/// `count` different masks for a machine with `gpus` GPUs.
///
/// According to the rule, 6 of 10 show no GPU, 3 show one GPU and 1 shows several, if the machine has several. There
/// are fewer masks only if the generator finds no more different ones.
pub fn generate_masks(seed: u64, count: usize, gpus: usize) -> Vec<Template> {
    let mut random = Random::new(seed);
    let uuids = stand_ins(gpus);
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let mut wish = Wish::draw_wish(&mut random, gpus);
    let mut tries = count.saturating_mul(1000);
    while found.len() < count && tries > 0 {
        tries -= 1;
        let Ok(template) = Template::parse(&draw_candidate(&mut random, wish, gpus)) else {
            continue;
        };
        let Ok(mask) = template.fill_uuids(&uuids) else {
            continue;
        };
        if mask.len() <= MOST_BYTES && wish.is_met(&mask, &uuids) && known.insert(mask) {
            found.push(template);
            wish = Wish::draw_wish(&mut random, gpus);
        }
    }
    found
}

/// UUIDs that no real GPU has, for predictions: only that they differ matters.
fn stand_ins(gpus: usize) -> Vec<String> {
    let mut random = Random::new(0);
    (0..gpus)
        .map(|_| {
            let (high, low) = (random.next(), random.next());
            let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
            format!(
                "GPU-{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}",
                low >> 48,
                low & 0xffff_ffff_ffff
            )
        })
        .collect()
}

impl Wish {
    fn draw_wish(random: &mut Random, gpus: usize) -> Wish {
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

/// A mask that probably has the wanted outcome.
fn draw_candidate(random: &mut Random, wish: Wish, gpus: usize) -> String {
    if random.percent(12) {
        return draw_separated(random, gpus);
    }
    let kind = random.pick([
        Identifier::Ordinal,
        Identifier::Ordinal,
        Identifier::Ordinal,
        Identifier::Uuid,
        Identifier::Uuid,
    ]);
    let order = random.shuffled_indices(gpus);
    let named = match wish {
        Wish::None => 0,
        Wish::One => 1,
        Wish::Twice => random.between(1, gpus),
        Wish::Several => random.between(2.min(gpus), gpus),
    };
    let mut entries: Vec<String> = order
        .iter()
        .take(named)
        .map(|gpu| draw_identifier(random, *gpu, kind))
        .collect();
    if wish == Wish::Twice {
        let again = order.get(random.below(named)).copied().unwrap_or(0);
        entries.push(draw_identifier(random, again, kind));
    }
    let more = match random.below(100) {
        0..45 => 0,
        45..92 => random.between(1, 5),
        _ => random.between(6, MOST_ENTRIES),
    };
    if wish == Wish::None || more > 0 {
        entries.push(if random.percent(40) {
            near_miss(random, gpus, kind)
        } else {
            draw_stray(random, gpus)
        });
    }
    // The entries after the end of the list would count before it.
    entries.extend((1..more).map(|_| any(random, gpus)));
    entries.truncate(MOST_ENTRIES);
    entries.join(",")
}

/// Valid entries with another separator than a comma.
fn draw_separated(random: &mut Random, gpus: usize) -> String {
    let separator = random.pick(SEPARATORS);
    let entries = random.between(1, 4);
    (0..entries)
        .map(|_| any(random, gpus))
        .collect::<Vec<_>>()
        .join(separator)
}

#[cfg(test)]
mod tests;
