//! The size of a change in device memory, in classes: what holds on every GPU model, where bytes
//! hold on one.

use crate::report::Calibration;
use crate::scenario::Class;

/// What counts as noise on a GPU that was not calibrated: the granule in which drivers take memory.
pub const FALLBACK_EPSILON_BYTES: u64 = 2 << 20;
/// What a context is taken to cost on a GPU that was not calibrated: between the 250 MiB of small
/// GPUs and the 550 MiB of large ones.
pub const FALLBACK_CONTEXT_BYTES: u64 = 400 << 20;
/// A context with a kernel or two loaded is still one context.
const SLACK_BYTES: u64 = 64 << 20;

/// The class of a change since the baseline.
///
/// None for a fall beyond noise: the worker held nothing at the baseline that it could have given
/// back, so somebody else did, and what the worker did meanwhile cannot be seen.
pub fn classify(delta: i64, calibration: Option<&Calibration>) -> Option<Class> {
    let size = delta.unsigned_abs();
    if size <= epsilon(calibration) {
        return Some(Class::None);
    }
    if delta < 0 {
        return None;
    }
    let context = context(calibration);
    Some(if size < context / 2 {
        Class::Touch
    } else if size < context.saturating_add(SLACK_BYTES.max(context / 4)) {
        Class::Context
    } else {
        Class::Allocation
    })
}

/// Changes at most this large are noise.
pub(crate) fn epsilon(calibration: Option<&Calibration>) -> u64 {
    calibration.map_or(FALLBACK_EPSILON_BYTES, |calibration| calibration.epsilon_bytes)
}

/// What one context costs. A calibration that saw none has failed, and says nothing about its size.
fn context(calibration: Option<&Calibration>) -> u64 {
    calibration
        .map(|calibration| calibration.context_bytes)
        .filter(|&bytes| bytes > 0)
        .unwrap_or(FALLBACK_CONTEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::fixture::calibration;

    const MIB: i64 = 1 << 20;

    #[test]
    fn classes_follow_the_calibrated_context() {
        let calibration = calibration("GPU-0");
        let class = |mib: i64| classify(mib * MIB, Some(&calibration));
        assert_eq!(class(0), Some(Class::None));
        assert_eq!(class(2), Some(Class::None));
        assert_eq!(class(-2), Some(Class::None));
        assert_eq!(class(3), Some(Class::Touch));
        assert_eq!(class(249), Some(Class::Touch));
        assert_eq!(class(250), Some(Class::Context));
        assert_eq!(class(500), Some(Class::Context));
        assert_eq!(class(624), Some(Class::Context));
        assert_eq!(class(625), Some(Class::Allocation));
        assert_eq!(class(100_000), Some(Class::Allocation));
    }

    #[test]
    fn a_fall_is_not_the_workers_doing_and_has_no_class() {
        assert_eq!(classify(-3 * MIB, None), None);
        assert_eq!(classify(i64::MIN, None), None);
    }

    #[test]
    fn without_calibration_documented_figures_are_used() {
        assert_eq!(classify(2 * MIB, None), Some(Class::None));
        assert_eq!(classify(199 * MIB, None), Some(Class::Touch));
        assert_eq!(classify(499 * MIB, None), Some(Class::Context));
        assert_eq!(classify(500 * MIB, None), Some(Class::Allocation));
        assert_eq!(classify(i64::MAX, None), Some(Class::Allocation));
    }

    #[test]
    fn classes_grow_with_the_change() {
        for context_bytes in [0, 1, 300 << 20, 500 << 20, u64::MAX] {
            let calibration = Calibration { context_bytes, ..calibration("GPU-0") };
            let classes: Vec<_> = (0..2000).filter_map(|mib| classify(mib * MIB, Some(&calibration))).collect();
            assert_eq!(classes.len(), 2000);
            assert!(classes.is_sorted(), "{context_bytes}");
        }
    }
}
