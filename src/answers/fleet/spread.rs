//! Figures of several machines, and when one of them differs: this rule stands here alone.

use super::Spread;

/// A figure differs if it is further from the median than this many times the median distance. Of figures that
/// vary by chance alone, normally distributed, one in 10^11 is: none among 10,000 machines with 1,000 figures each.
const MOST_MADS: u64 = 10;
/// And further than this: NVML counts in pages of 2 MiB, and the committed reports of nine machines with two H200
/// differ by at most one of them where nothing else does.
const NOISE_BYTES: u64 = 2 << 20;
/// And further than a hundredth of the median, which is what the size of a context differs by between them.
const HUNDREDTH: u64 = 100;
/// Beside other processes a figure has to be further away, because some of it may be theirs: attempts that count
/// vary by up to 22 MiB in the committed reports of such runs.
const SHARED_NOISE_BYTES: u64 = 32 << 20;
/// With fewer machines there is no majority that one could differ from.
const FEWEST: usize = 3;

/// The figures in short; none of none.
pub(super) fn spread(figures: &mut [i64]) -> Option<Spread> {
    let median_bytes = median(figures)?;
    let (least_bytes, most_bytes) = (*figures.first()?, *figures.last()?);
    let distance = |figure: &i64| i64::try_from(figure.abs_diff(median_bytes)).unwrap_or(i64::MAX);
    let mut distances: Vec<i64> = figures.iter().map(distance).collect();
    let mad_bytes = median(&mut distances)?;
    Some(Spread { count: figures.len(), median_bytes, mad_bytes, least_bytes, most_bytes })
}

/// Whether a figure differs from those of which this is the spread, on GPUs that others use too or do not.
pub(super) fn differs(figure: i64, of: &Spread, is_shared: bool) -> bool {
    let away = figure.abs_diff(of.median_bytes);
    let is_beyond_chance = away > of.mad_bytes.unsigned_abs().saturating_mul(MOST_MADS);
    of.count >= FEWEST && away > noise(of.median_bytes, is_shared) && is_beyond_chance
}

/// How far figures with this median may be from one another without a cause.
pub(super) fn noise(median: i64, is_shared: bool) -> u64 {
    let noise = NOISE_BYTES.max(median.unsigned_abs() / HUNDREDTH);
    if is_shared { noise.max(SHARED_NOISE_BYTES) } else { noise }
}

/// The middle of the figures, which are sorted for it; of two in the middle, the mean.
fn median(figures: &mut [i64]) -> Option<i64> {
    figures.sort_unstable();
    let high = *figures.get(figures.len() / 2)?;
    if figures.len() % 2 == 1 {
        return Some(high);
    }
    let low = *figures.get(figures.len() / 2 - 1)?;
    i64::try_from((i128::from(low) + i128::from(high)) / 2).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    fn of(figures: &[i64]) -> Spread {
        spread(&mut figures.to_vec()).unwrap()
    }

    #[test]
    fn the_median_and_the_median_distance_ignore_one_that_is_far_off() {
        let spread = of(&[10, 1, 2, 3, 1000]);
        assert_eq!((spread.count, spread.median_bytes, spread.mad_bytes), (5, 3, 2));
        assert_eq!((spread.least_bytes, spread.most_bytes), (1, 1000));
        assert_eq!(of(&[4, 1]).median_bytes, 2);
        assert_eq!(of(&[7]).mad_bytes, 0);
        assert_eq!(of(&[i64::MIN, i64::MAX, i64::MAX, 0]).median_bytes, i64::MAX / 2);
        assert!(super::spread(&mut []).is_none());
    }

    #[test]
    fn a_figure_differs_if_it_is_beyond_chance_and_beyond_noise() {
        let same = of(&[527 * MIB; 9]);
        assert!(!differs(527 * MIB + 2 * MIB, &same, false));
        assert!(!differs(527 * MIB + 5 * MIB, &same, false), "within a hundredth");
        assert!(differs(527 * MIB + 6 * MIB, &same, false) && differs(521 * MIB, &same, false));
        assert!(!differs(527 * MIB + 32 * MIB, &same, true), "it may be of another process");
        assert!(differs(527 * MIB + 33 * MIB, &same, true));
        let wide = of(&[100 * MIB, 104 * MIB, 108 * MIB, 112 * MIB, 116 * MIB]);
        assert_eq!(wide.mad_bytes, 4 * MIB);
        assert!(!differs(148 * MIB, &wide, false) && differs(149 * MIB, &wide, false));
        assert!(!differs(0, &of(&[527 * MIB; 2]), false), "two are no majority");
    }
}
