//! Byte sizes and durations as people write them: `64 MiB`, `30s`.

const UNITS: [(&str, i64); 4] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// The text is not a size or duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The error.
    pub message: String,
    /// Examples of valid values.
    pub help: String,
}

fn malformed(message: impl Into<String>, help: impl Into<String>) -> Malformed {
    Malformed {
        message: message.into(),
        help: help.into(),
    }
}

/// Returns the leading digits of a text, and the rest without the spaces between.
fn split(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_start()))
}

/// Returns the number of bytes in a text such as `64 MiB`. A unit is required, because digits alone may be a name or a
/// mask.
///
/// # Errors
/// Returns an error if the text is not a size.
pub fn bytes(text: &str) -> Result<i64, Malformed> {
    let form = "write an integer, or a number with B, KiB, MiB or GiB";
    let Some((digits, unit)) = split(text.trim()) else {
        return Err(malformed(format!("`{text}` is not a byte size"), form));
    };
    if let Some(binary) = meant_binary_unit(unit) {
        let message = format!("`{unit}` may mean 1000 or 1024");
        return Err(malformed(
            message,
            format!("write `{digits} {binary}`, which counts in 1024s"),
        ));
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(malformed(format!("`{text}` is not a byte size"), form));
    };
    let number: Option<i64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(*factor))
        .ok_or_else(|| {
            malformed(
                format!("`{text}` is more than a 64-bit number of bytes"),
                form,
            )
        })
}

/// Returns the binary unit that a decimal or abbreviated unit probably means.
fn meant_binary_unit(unit: &str) -> Option<&'static str> {
    match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" => Some("KiB"),
        "m" | "mb" => Some("MiB"),
        "g" | "gb" => Some("GiB"),
        _ => None,
    }
}

/// Returns `true` if a text was meant as a byte size, valid or not.
pub fn looks_like_bytes(text: &str) -> bool {
    split(text).is_some_and(|(_, unit)| {
        meant_binary_unit(unit).is_some() || UNITS.iter().any(|(name, _)| *name == unit)
    })
}

/// Returns the milliseconds in a text such as `500ms`, `30s` or `2m`.
///
/// # Errors
/// Returns an error if the text is not a duration.
pub fn parse_milliseconds(text: &str) -> Result<u64, Malformed> {
    let parsed = split(text).and_then(|(digits, unit)| {
        let factor = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            _ => return None,
        };
        digits
            .parse::<u64>()
            .ok()?
            .checked_mul(factor)
            .filter(|ms| *ms > 0)
    });
    let help = "write a number with ms, s or m, such as `30s`";
    parsed.ok_or_else(|| malformed(format!("`{text}` is not a duration"), help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_in_1024s() {
        assert_eq!(bytes("0 B"), Ok(0));
        assert_eq!(bytes("7KiB"), Ok(7 << 10));
        assert_eq!(bytes("64 MiB"), Ok(64 << 20));
        assert_eq!(bytes("2 GiB"), Ok(2 << 30));
    }

    #[test]
    fn a_decimal_unit_is_refused_with_the_binary_one() {
        assert_eq!(
            bytes("64 MB").unwrap_err().help,
            "write `64 MiB`, which counts in 1024s"
        );
        assert_eq!(
            bytes("1 g").unwrap_err().help,
            "write `1 GiB`, which counts in 1024s"
        );
    }

    #[test]
    fn bare_digits_fractions_and_overflow_are_no_sizes() {
        for text in [
            "",
            "64",
            "1.5 GiB",
            "-1 B",
            "MiB",
            "64 MiBs",
            "9999999999999999999 B",
            "9000000000 GiB",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_looks_like_a_size_is_told_from_other_text() {
        for text in ["64 MiB", "64 MB", "1gb"] {
            assert!(looks_like_bytes(text), "{text}");
        }
        for text in ["0", "0,1", "GPU-1", "NVIDIA H200", "", "80 GB HBM3"] {
            assert!(!looks_like_bytes(text), "{text}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_milliseconds("500ms"), Ok(500));
        assert_eq!(parse_milliseconds("30s"), Ok(30_000));
        assert_eq!(parse_milliseconds("2m"), Ok(120_000));
        for text in [
            "30",
            "0s",
            "1h",
            "-1s",
            "",
            "s",
            "1.5s",
            "99999999999999999999s",
        ] {
            assert!(parse_milliseconds(text).is_err(), "{text}");
        }
    }
}
