//! Seeded random numbers: one seed gives the same draws on every machine and in every version.

/// SplitMix64, by Steele, Lea and Flood. Seeds are stored in reports, so the generator must never change; that matters
/// more than its quality.
pub struct Random(u64);

impl Random {
    /// Returns the draws that follow from this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `end - 1`, or 0 if `end` is 0. The lowest numbers are slightly more likely, which
    /// does not matter here.
    pub fn below(&mut self, end: usize) -> usize {
        let drawn = self.next();
        u64::try_from(end)
            .ok()
            .and_then(|end| drawn.checked_rem(end))
            .and_then(|remainder| usize::try_from(remainder).ok())
            .unwrap_or(0)
    }

    /// Returns a number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below((most + 1).saturating_sub(least))
    }

    /// Returns `true` with this probability, in percent.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        const { assert!(N > 0) };
        from[self.below(N)]
    }

    /// Returns the numbers from 0 to `count - 1` in random order.
    pub(crate) fn shuffled_indices(&mut self, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..count).collect();
        for place in (1..count).rev() {
            places.swap(place, self.below(place + 1));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = Random::new(1234567);
        assert_eq!(random.next(), 6457827717110365317);
        assert_eq!(random.next(), 3203168211198807973);
    }

    #[test]
    fn draws_stay_in_their_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let drawn: Vec<usize> = (0..200).map(|_| random.between(3, 5)).collect();
        assert!(
            [3, 4, 5].iter().all(|number| drawn.contains(number))
                && drawn.iter().all(|number| (3..=5).contains(number))
        );
        assert_eq!((random.below(0), random.between(7, 7)), (0, 7));
        let mut places = random.shuffled_indices(9);
        assert_ne!(places, (0..9).collect::<Vec<_>>());
        places.sort_unstable();
        assert_eq!(places, (0..9).collect::<Vec<_>>());
    }
}
