//! Figures of several machines, and the rule for outliers, which is defined only here.

use super::document::ByteSpread;

/// Minimum distance of an outlier from the median, as a multiple of the median distance. Among figures that vary only
/// by chance, normally distributed, one in 10^11 is an outlier: none among 10,000 machines with 1,000 figures each.
const MOST_MADS: u64 = 10;
/// Minimum distance of an outlier from the median, in bytes. NVML counts in pages of 2 MiB, and the committed reports
/// of nine machines with two H200 differ by at most one of them if there is no other difference.
const NOISE_BYTES: u64 = 2 << 20;
/// Minimum distance of an outlier from the median, as a fraction of the median. The sizes of contexts differ by up to a
/// hundredth between these machines.
const HUNDREDTH: u64 = 100;
/// Minimum distance of an outlier from the median if other processes use the GPUs, in bytes. It is larger because some
/// of the memory may belong to them: attempts that count vary by up to 22 MiB in the committed reports of such runs.
const SHARED_NOISE_BYTES: u64 = 32 << 20;
/// Minimum number of machines. With fewer machines there is no majority to differ from.
const FEWEST: usize = 3;

impl ByteSpread {
    /// Returns the spread of figures; `None` if there are no figures.
    pub(super) fn new(figures: impl Iterator<Item = i64>) -> Option<ByteSpread> {
        let mut figures: Vec<i64> = figures.collect();
        let median_bytes = median(&mut figures)?;
        let (least_bytes, most_bytes) = (*figures.first()?, *figures.last()?);
        let distances = figures
            .iter()
            .map(|figure| i64::try_from(figure.abs_diff(median_bytes)).unwrap_or(i64::MAX));
        let mad_bytes = median(&mut distances.collect::<Vec<_>>())?;
        Some(ByteSpread {
            count: figures.len(),
            median_bytes,
            mad_bytes,
            least_bytes,
            most_bytes,
        })
    }

    /// Returns `true` if a figure is an outlier of this spread. `is_shared` is `true` if other processes use the GPUs
    /// too.
    pub(super) fn is_outlier(&self, figure: i64, is_shared: bool) -> bool {
        let away = figure.abs_diff(self.median_bytes);
        let is_beyond_chance = away > self.mad_bytes.unsigned_abs().saturating_mul(MOST_MADS);
        self.count >= FEWEST && away > noise_limit(self.median_bytes, is_shared) && is_beyond_chance
    }
}

/// Returns the maximum difference that counts as noise between figures with this median.
pub(super) fn noise_limit(median: i64, is_shared: bool) -> u64 {
    let noise = NOISE_BYTES.max(median.unsigned_abs() / HUNDREDTH);
    if is_shared {
        noise.max(SHARED_NOISE_BYTES)
    } else {
        noise
    }
}

/// Returns the median of the figures, and sorts them; if there are two middle figures, their mean.
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

    fn spread_of(figures: &[i64]) -> ByteSpread {
        ByteSpread::new(figures.iter().copied()).unwrap()
    }

    #[test]
    fn the_median_and_the_median_distance_ignore_one_that_is_far_off() {
        let spread = spread_of(&[10, 1, 2, 3, 1000]);
        assert_eq!(
            (spread.count, spread.median_bytes, spread.mad_bytes),
            (5, 3, 2)
        );
        assert_eq!((spread.least_bytes, spread.most_bytes), (1, 1000));
        assert_eq!(spread_of(&[4, 1]).median_bytes, 2);
        assert_eq!(spread_of(&[7]).mad_bytes, 0);
        assert_eq!(
            spread_of(&[i64::MIN, i64::MAX, i64::MAX, 0]).median_bytes,
            i64::MAX / 2
        );
        assert!(ByteSpread::new(std::iter::empty()).is_none());
    }

    #[test]
    fn a_figure_differs_if_it_is_beyond_chance_and_beyond_noise() {
        let same = spread_of(&[527 * MIB; 9]);
        assert!(!same.is_outlier(527 * MIB + 2 * MIB, false));
        assert!(
            !same.is_outlier(527 * MIB + 5 * MIB, false),
            "within a hundredth"
        );
        assert!(same.is_outlier(527 * MIB + 6 * MIB, false) && same.is_outlier(521 * MIB, false));
        assert!(
            !same.is_outlier(527 * MIB + 32 * MIB, true),
            "it may be of another process"
        );
        assert!(same.is_outlier(527 * MIB + 33 * MIB, true));
        let wide = spread_of(&[100 * MIB, 104 * MIB, 108 * MIB, 112 * MIB, 116 * MIB]);
        assert_eq!(wide.mad_bytes, 4 * MIB);
        assert!(!wide.is_outlier(148 * MIB, false) && wide.is_outlier(149 * MIB, false));
        assert!(
            !spread_of(&[527 * MIB; 2]).is_outlier(0, false),
            "two are no majority"
        );
    }
}
