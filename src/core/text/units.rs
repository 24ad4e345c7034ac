//! Numbers as people read them. Reports have the exact numbers.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Formats bytes: `530 MiB`, `1.5 MiB`, `141 GiB`, `0`. Only zero is shown as `0`.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        1..KIB => format!("{bytes} B"),
        // A value that would round up to the next unit is shown in that unit.
        _ if bytes < MIB - KIB / 2 => format_scaled(bytes, KIB, "KiB"),
        _ if bytes < 10 * GIB => format_scaled(bytes, MIB, "MiB"),
        _ => format_scaled(bytes, GIB, "GiB"),
    }
}

/// Formats bytes, with the exact number if the short form is not exact: `3.6 MiB (3760128 B)`.
pub fn bytes_exact(bytes: u64) -> String {
    let unit = match bytes {
        0..KIB => 1,
        _ if bytes < MIB - KIB / 2 => KIB,
        _ if bytes < 10 * GIB => MIB,
        _ => GIB,
    };
    let short = self::bytes(bytes);
    if bytes.is_multiple_of(unit) {
        short
    } else {
        format!("{short} ({bytes} B)")
    }
}

/// Formats a change in bytes: `+530 MiB`, `-2 MiB`, `0`.
pub fn format_delta(bytes: i64) -> String {
    match bytes {
        0 => "0".to_owned(),
        1.. => format!("+{}", self::bytes(bytes.unsigned_abs())),
        _ => format!("-{}", self::bytes(bytes.unsigned_abs())),
    }
}

/// Formats bytes that may be negative: `530 MiB`, `-2 MiB`, `0`.
pub fn signed_bytes(bytes: i64) -> String {
    if bytes < 0 {
        format_delta(bytes)
    } else {
        self::bytes(bytes.unsigned_abs())
    }
}

/// Formats a change in bytes: `+530 MiB`, or `not read` for `None`.
pub fn delta_or_unread(bytes: Option<i64>) -> String {
    bytes.map_or_else(|| "not read".to_owned(), format_delta)
}

/// Formats a duration: `412 ms`, `1.8 s`, `73 s`, `0`.
pub fn format_duration(ns: u64) -> String {
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    const S: u64 = 1_000_000_000;
    match ns {
        0 => "0".to_owned(),
        1..US => format!("{ns} ns"),
        _ if ns < MS - US / 2 => format_scaled(ns, US, "µs"),
        _ if ns < S - MS / 2 => format_scaled(ns, MS, "ms"),
        _ if ns < 600 * S => format_scaled(ns, S, "s"),
        _ => format_scaled(ns, 60 * S, "min"),
    }
}

/// Formats an age in whole units: `12 s`, `5 min`, `3 h`, `4 d`.
pub fn format_age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Formats a CUDA version number: `13.0` for 13000.
pub fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Formats a whole number if that is exact or large; otherwise one decimal place.
fn format_scaled(value: u64, unit: u64, name: &str) -> String {
    let tenths = (u128::from(value) * 10 + u128::from(unit) / 2) / u128::from(unit);
    if value.is_multiple_of(unit) || tenths >= 1000 || tenths % 10 == 0 {
        format!("{} {name}", (tenths + 5) / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short_and_never_falsely_zero() {
        let shown = [
            0,
            1,
            1023,
            1024,
            1536,
            MIB - 1,
            2 * MIB,
            530 * MIB,
            530 * MIB + 1,
            MIB * 3 / 2,
            141 * GIB,
        ];
        assert_eq!(
            shown.map(bytes),
            [
                "0", "1 B", "1023 B", "1 KiB", "1.5 KiB", "1 MiB", "2 MiB", "530 MiB", "530 MiB",
                "1.5 MiB", "141 GiB"
            ]
        );
        assert_eq!(bytes(u64::MAX), "17179869184 GiB");
    }

    #[test]
    fn the_exact_number_is_there_where_it_differs() {
        assert_eq!(bytes_exact(530 * MIB), "530 MiB");
        assert_eq!(bytes_exact(530 * MIB + 1), "530 MiB (555745281 B)");
        assert_eq!(bytes_exact(0), "0");
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(
            [530 << 20, 0, -(2 << 20)].map(format_delta),
            ["+530 MiB", "0", "-2 MiB"]
        );
        assert_eq!(format_delta(i64::MIN), "-8589934592 GiB");
        assert_eq!(
            [530 << 20, 0, -(2 << 20)].map(signed_bytes),
            ["530 MiB", "0", "-2 MiB"]
        );
        assert_eq!(delta_or_unread(None), "not read");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        let shown = [
            0,
            900,
            1_500,
            412_000_000,
            1_840_000_000,
            73_000_000_000,
            3_600_000_000_000,
        ];
        assert_eq!(
            shown.map(format_duration),
            ["0", "900 ns", "1.5 µs", "412 ms", "1.8 s", "73 s", "60 min"]
        );
        assert_eq!(format_duration(999_999_999), "1 s");
        assert_eq!(cuda_version(13040), "13.4");
    }
}
