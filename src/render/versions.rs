//! The version since which a pitfall occurs: expectations in the user's words, which each format escapes.

use cuda_pitfalls_core::scenario::{Expectation, Expected, Range, Scalar, When};

/// Returns `true` if any of these depends on a version.
pub fn has_versioned(expect: &[Expectation]) -> bool {
    expect
        .iter()
        .any(|expectation| is_versioned(&expectation.when))
}

/// Returns `true` if a condition depends on a version of the driver or of libcudart.
pub fn is_versioned(when: &When) -> bool {
    when.driver.is_some() || when.libcudart.is_some()
}

/// Returns a line for each expectation: its condition, and whether the pitfall occurs. `value` writes parameters.
pub fn lines(expect: &[Expectation], value: fn(&Scalar) -> String) -> Vec<String> {
    let lines = expect.iter().enumerate().map(|(index, expectation)| {
        let shows = match expectation.verdict {
            Expected::Reproduced => "the pitfall occurs",
            Expected::NotReproduced => "the pitfall does not occur",
        };
        match (condition_words(&expectation.when, value), index) {
            (Some(condition), _) => format!("{condition} {shows}"),
            (None, 0) => shows.to_owned(),
            (None, _) => format!("otherwise {shows}"),
        }
    });
    lines.collect()
}

/// Returns a condition as text: `since libcudart 12.0`, `before driver 535, for mask 0,0`. `None` if it always holds.
pub fn condition_words(when: &When, value: fn(&Scalar) -> String) -> Option<String> {
    let mut all = Vec::new();
    all.extend(
        when.libcudart
            .as_ref()
            .map(|range| version("libcudart", range)),
    );
    all.extend(when.driver.as_ref().map(|range| version("driver", range)));
    all.extend(
        when.compute_capability
            .as_ref()
            .map(|range| format!("with compute capability {range}")),
    );
    all.extend(
        when.gpus
            .as_ref()
            .map(|range| format!("on machines with GPUs {range}")),
    );
    for (name, values) in &when.parameters {
        let values: Vec<String> = values.iter().map(value).collect();
        all.push(format!("for {name} {}", values.join(" or ")));
    }
    all.extend(when.packages.iter().map(|text| package(text)));
    (!all.is_empty()).then(|| all.join(", "))
}

/// Returns a package as text: `with torch 2.11`. The text names the measured version; that newer ones behave the same
/// is not known until a run checks it.
fn package(text: &str) -> String {
    match text.split_once(">=") {
        Some((name, version)) if !text.contains([',', '|']) => {
            format!("with {} {}", name.trim(), version.trim())
        }
        _ => format!("with {text}"),
    }
}

/// Returns a range of versions as text: `since libcudart 12.0`.
fn version(what: &str, range: &Range) -> String {
    let text = range.0.trim();
    let words = [
        (">=", "since"),
        ("<=", "up to"),
        (">", "after"),
        ("<", "before"),
        ("=", "with"),
    ];
    let found = words
        .iter()
        .find_map(|(sign, word)| Some((word, text.strip_prefix(sign)?.trim())));
    match found {
        Some((word, version)) => format!("{word} {what} {version}"),
        None => format!("with {what} {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(verdict: Expected, libcudart: Option<&str>) -> Expectation {
        let when = When {
            libcudart: libcudart.map(|range| Range(range.into())),
            ..When::default()
        };
        Expectation {
            verdict,
            when,
            because: "measured".into(),
            evidence: String::new(),
        }
    }

    #[test]
    fn ranges_become_words() {
        assert_eq!(
            [">= 535", "<=535", "> 9.0", "< 12.0", "= 580"]
                .map(|range| version("driver", &Range(range.into()))),
            [
                "since driver 535",
                "up to driver 535",
                "after driver 9.0",
                "before driver 12.0",
                "with driver 580"
            ]
        );
    }

    #[test]
    fn of_a_package_the_version_is_named_and_no_newer_one() {
        assert_eq!(
            ["torch >= 2.11", "python < 3.14", "torch >= 2.0, < 3"].map(package),
            [
                "with torch 2.11",
                "with python < 3.14",
                "with torch >= 2.0, < 3"
            ]
        );
    }

    #[test]
    fn an_expectation_without_a_condition_is_for_everywhere_or_for_the_rest() {
        let since = [
            expected(Expected::Reproduced, Some(">= 12.0")),
            expected(Expected::NotReproduced, None),
        ];
        assert_eq!(
            lines(&since, Scalar::to_string),
            [
                "since libcudart 12.0 the pitfall occurs",
                "otherwise the pitfall does not occur"
            ]
        );
        assert!(has_versioned(&since) && !has_versioned(&since[1..]));
        assert_eq!(
            lines(&since[1..], Scalar::to_string),
            ["the pitfall does not occur"]
        );
    }
}
