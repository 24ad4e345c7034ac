//! One line for node-problem-detector, which keeps 80 bytes of a plugin's output.

use crate::report::Report;

use super::escape::{shorten, visible};
use super::tally::{self, Standing};

/// What node-problem-detector keeps, the newline included.
pub const LIMIT: usize = 80;

/// The line: how many stand worst, and the name of the first of them.
pub fn report(report: &Report) -> String {
    let mut line = String::new();
    for banner in tally::banners(report) {
        // The first words of a banner; what they mean is in the documentation.
        line.push_str(banner.split(" — ").next().unwrap_or_default());
        line.push_str(": ");
    }
    let worst = report.scenarios.iter().map(|scenario| Standing::of(&scenario.verdict)).max();
    match worst {
        None => line.push_str("no scenario ran"),
        Some(worst) => {
            line.push_str(&format!("{}/{} {}", tally::count(report, worst), report.scenarios.len(), worst.name()));
            let first = report.scenarios.iter().find(|scenario| Standing::of(&scenario.verdict) == worst);
            if let Some(first) = first.filter(|_| worst > Standing::Answered) {
                // The name comes last, because it is what can do without its end.
                let word = match first.verdict.reason {
                    Some(reason) => reason.name(),
                    None => first.verdict.kind.name().to_owned(),
                };
                line.push_str(&format!(": {word}, {}", visible(&first.name)));
            }
        }
    }
    format!("{}\n", shorten(&line, LIMIT - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn the_line_names_the_worst_and_fits() {
        assert_eq!(report(&fixture::report()), "1/4 unexpected: not_reproduced, context/set-device-makes-no-context\n");
        assert_eq!(report(&fixture::empty()), "no scenario ran\n");
        assert_eq!(report(&fixture::partial()), "PARTIAL: 1/1 as expected\n");
        assert!(report(&fixture::simulated()).starts_with("SIMULATED: 1/4 unexpected: "));
        let hostile = report(&fixture::hostile());
        assert!(hostile.len() <= LIMIT && hostile.lines().count() == 1, "{hostile}");
    }
}
