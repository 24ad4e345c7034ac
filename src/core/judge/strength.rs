//! The strength of the evidence of a count, as text. The text never contains "impossible".

/// Returns the probability that chance alone separates traps and controls completely: 1 / C(traps + controls, traps),
/// if attempts are exchangeable.
pub(super) fn separation_chance(traps: usize, controls: usize) -> f64 {
    let (small, all) = (traps.min(controls), traps.saturating_add(controls));
    // C(n, k) as a product of k fractions. Inverting each factor avoids an overflow.
    (0..small)
        .map(|i| (small - i) as f64 / all.saturating_sub(i) as f64)
        .product()
}

/// Returns the largest rate that is compatible with `none of n`, at 95 % confidence.
pub(super) fn upper_bound(n: usize) -> f64 {
    if n == 0 {
        1.0
    } else {
        1.0 - 0.05f64.powf(1.0 / n as f64)
    }
}

/// Returns a probability as a percentage; never rounded to 0.
pub(super) fn format_percent(share: f64) -> String {
    let percent = share * 100.0;
    if share > 0.0 && percent < 0.01 {
        format!("{percent:.1e} %")
    } else if share <= 0.0 {
        "below 1e-300 %".to_string()
    } else if percent < 1.0 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separation_is_one_over_the_binomial() {
        assert!((separation_chance(3, 3) - 1.0 / 20.0).abs() < 1e-12);
        assert!((separation_chance(5, 5) - 1.0 / 252.0).abs() < 1e-12);
        assert!((separation_chance(5, 3) - 1.0 / 56.0).abs() < 1e-12);
        assert!((separation_chance(16, 16) - 1.0 / 601_080_390.0).abs() < 1e-15);
        assert!((separation_chance(5, 0) - 1.0).abs() < 1e-12);
        assert!(separation_chance(100_000, 100_000) < 1e-300);
    }

    #[test]
    fn bounds_are_those_of_the_literature() {
        assert_eq!(format_percent(upper_bound(5)), "45 %");
        assert_eq!(format_percent(upper_bound(59)), "5 %");
        assert_eq!(format_percent(upper_bound(0)), "100 %");
    }

    #[test]
    fn nothing_is_impossible() {
        assert_eq!(format_percent(1.0 / 252.0), "0.40 %");
        assert_eq!(format_percent(7.8e-5), "7.8e-3 %");
        assert_eq!(
            format_percent(separation_chance(100_000, 100_000)),
            "below 1e-300 %"
        );
    }
}
