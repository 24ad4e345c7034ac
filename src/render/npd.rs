//! One line for node-problem-detector, which keeps 80 bytes of a plugin's output, and the status
//! that it takes from the plugin's exit code.

use crate::exit::Exit;
use crate::report::Report;

use super::tally::{self, Standing};
use crate::text::escape::{shorten, visible};

/// What node-problem-detector keeps, the newline included.
pub const LIMIT: usize = 80;

/// What a plugin of node-problem-detector says with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginStatus {
    /// 0: all is as expected.
    Ok,
    /// 1: a verdict is not as expected, or the host is unsafe to go on with.
    Problem,
    /// 2: nothing can be said.
    Unknown,
}

impl PluginStatus {
    /// What the report says of the machine.
    pub fn of(report: &Report) -> PluginStatus {
        match Exit::of_report(report) {
            Exit::Ok => PluginStatus::Ok,
            Exit::Unexpected | Exit::HostUnsafe => PluginStatus::Problem,
            _ => PluginStatus::Unknown,
        }
    }

    /// The exit code.
    pub const fn code(self) -> i32 {
        match self {
            PluginStatus::Ok => 0,
            PluginStatus::Problem => 1,
            PluginStatus::Unknown => 2,
        }
    }

    /// The word beside the code on stderr.
    pub const fn name(self) -> &'static str {
        match self {
            PluginStatus::Ok => "ok",
            PluginStatus::Problem => "problem",
            PluginStatus::Unknown => "unknown",
        }
    }
}

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
    fn the_status_is_what_the_report_says_of_the_machine() {
        assert_eq!(PluginStatus::of(&fixture::report()), PluginStatus::Problem);
        assert_eq!(PluginStatus::of(&fixture::empty()), PluginStatus::Unknown);
        assert_eq!(PluginStatus::of(&fixture::partial()), PluginStatus::Unknown);
        let mut fine = fixture::report();
        fine.scenarios.truncate(1);
        assert_eq!(PluginStatus::of(&fine), PluginStatus::Ok);
        fine.run.host_unsafe = Some("a GPU was lost".into());
        assert_eq!(PluginStatus::of(&fine), PluginStatus::Problem);
    }

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
