//! The size of a change in device memory, in classes. Classes are comparable between GPU models; bytes are not.

use crate::calibration::Calibration;
use crate::observation::Class;

/// The noise of a GPU that was not calibrated: the granularity of driver allocations.
pub const FALLBACK_EPSILON_BYTES: u64 = 2 << 20;
/// Memory that a context may take in addition, for a kernel or two.
const SLACK_BYTES: u64 = 64 << 20;

/// Returns `true` if memory may be judged by this calibration. Without a calibration, neither the noise nor the cost of
/// a context is known.
pub(crate) fn is_sound(calibration: Option<&Calibration>) -> bool {
    calibration.is_some_and(|calibration| calibration.sound && calibration.context_bytes > 0)
}

/// Returns the class of a change since the baseline; `None` without a sound calibration.
///
/// A fall beyond noise has no class. The worker held nothing at the baseline that it could free, so another process
/// freed it, and the worker's own allocations at that time cannot be seen.
pub fn classify_change(delta: i64, calibration: Option<&Calibration>) -> Option<Class> {
    let calibration = calibration.filter(|calibration| is_sound(Some(calibration)))?;
    let size = delta.unsigned_abs();
    if size <= calibration.epsilon_bytes {
        return Some(Class::None);
    }
    if delta < 0 {
        return None;
    }
    let context = calibration.context_bytes;
    Some(if size < context / 2 {
        Class::Init
    } else if size < context.saturating_add(SLACK_BYTES.max(context / 4)) {
        Class::Context
    } else {
        Class::Allocation
    })
}

/// Returns the maximum change that counts as noise.
pub(crate) fn noise_limit(calibration: Option<&Calibration>) -> u64 {
    calibration.map_or(FALLBACK_EPSILON_BYTES, |calibration| {
        calibration.epsilon_bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::fixture::calibration;

    const MIB: i64 = 1 << 20;

    #[test]
    fn classes_follow_the_calibrated_context() {
        let calibration = calibration("GPU-0");
        for (class, sizes) in [
            (Class::None, [0, 2, -2]),
            (Class::Init, [3, 100, 249]),
            (Class::Context, [250, 500, 624]),
            (Class::Allocation, [625, 1000, 100_000]),
        ] {
            for mib in sizes {
                assert_eq!(
                    classify_change(mib * MIB, Some(&calibration)),
                    Some(class),
                    "{mib}"
                );
            }
        }
    }

    #[test]
    fn a_fall_is_not_the_workers_doing_and_has_no_class() {
        assert_eq!(classify_change(-3 * MIB, Some(&calibration("GPU-0"))), None);
        assert_eq!(classify_change(i64::MIN, Some(&calibration("GPU-0"))), None);
    }

    #[test]
    fn without_a_sound_calibration_nothing_has_a_class() {
        let unsound = Calibration {
            sound: false,
            ..calibration("GPU-0")
        };
        let blind = Calibration {
            context_bytes: 0,
            ..calibration("GPU-0")
        };
        for calibration in [None, Some(&unsound), Some(&blind)] {
            for delta in [0, 3 * MIB, 500 * MIB, -3 * MIB] {
                assert_eq!(classify_change(delta, calibration), None);
            }
        }
    }

    #[test]
    fn classes_grow_with_the_change() {
        for context_bytes in [1, 300 << 20, 500 << 20, u64::MAX] {
            let calibration = Calibration {
                context_bytes,
                ..calibration("GPU-0")
            };
            let classes: Vec<_> = (0..2000)
                .filter_map(|mib| classify_change(mib * MIB, Some(&calibration)))
                .collect();
            assert_eq!(classes.len(), 2000);
            assert!(classes.is_sorted(), "{context_bytes}");
        }
    }
}
