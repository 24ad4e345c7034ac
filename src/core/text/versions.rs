//! Versions as people write and list them: `12.9`, `11.7 to 12.6, 12.8`.

/// A version as numbers, so that 12.10 comes after 12.9.
pub type Version = Vec<u32>;

/// Parses a version; a part that is not a number becomes 0.
pub fn number(version: &str) -> Version {
    version
        .split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

/// Returns the version as text.
pub fn name(version: &[u32]) -> String {
    version
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(".")
}

/// Returns versions as ranges. A range ends at a version of `all` that is not among them.
pub fn format_ranges(versions: &[Version], all: &[Version]) -> String {
    let ranges = all
        .split(|version| !versions.contains(version))
        .filter_map(|range| match range {
            [] => None,
            [only] => Some(name(only)),
            [first, .., last] => Some(format!("{} to {}", name(first), name(last))),
        });
    ranges.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_where_a_version_is_missing() {
        let numbers = |all: &[&str]| {
            all.iter()
                .map(|version| number(version))
                .collect::<Vec<_>>()
        };
        let all = numbers(&["11.8", "12.0", "12.4", "12.10", "13.0"]);
        assert_eq!(
            format_ranges(&numbers(&["11.8", "12.0", "12.10"]), &all),
            "11.8 to 12.0, 12.10"
        );
        assert_eq!(format_ranges(&all, &all), "11.8 to 13.0");
        assert_eq!(format_ranges(&[], &all), "");
    }
}
