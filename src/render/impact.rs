//! The impact of a pitfall: whether it occurs on this machine, and whether something has to be done about it.
//!
//! [`super::tally::Standing`] is independent: it compares the answer with the expected one. A yes may be expected and
//! still cost the user memory.

use crate::block::Tone;
use cuda_pitfalls_core::report::ScenarioView;
use cuda_pitfalls_core::scenario::needs_nothing;
use cuda_pitfalls_core::verdict::Kind;

/// Meaning of an answer for the user, the most urgent variant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Impact {
    /// The pitfall shows.
    Shows,
    /// The pitfall occurs, and nothing has to be done.
    Harmless,
    /// The pitfall does not occur.
    Absent,
    /// There is no answer.
    Unknown,
}

impl Impact {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Impact; 4] = [
        Impact::Shows,
        Impact::Harmless,
        Impact::Absent,
        Impact::Unknown,
    ];

    /// Returns the impact of a verdict; `workaround` is empty if no workaround exists.
    pub fn new(kind: Kind, workaround: &str) -> Impact {
        match kind {
            Kind::Reproduced if needs_nothing(workaround) => Impact::Harmless,
            Kind::Reproduced => Impact::Shows,
            Kind::NotReproduced => Impact::Absent,
            Kind::Inconclusive | Kind::Skipped | Kind::HarnessError => Impact::Unknown,
        }
    }

    /// Returns the impact of the answer to one instance.
    pub fn from_scenario(scenario: &ScenarioView<'_>) -> Impact {
        Impact::new(scenario.verdict.kind, scenario.workaround)
    }

    /// Returns the CSS class on a page, for filters.
    pub(super) fn class(self) -> &'static str {
        self.shown().0
    }

    /// Returns its color on a page.
    pub(super) fn tone(self) -> Tone {
        match self {
            Impact::Shows => Tone::Shows,
            Impact::Harmless => Tone::Plain,
            Impact::Absent => Tone::Good,
            Impact::Unknown => Tone::Dim,
        }
    }

    /// Returns the label of a filter and of a count.
    pub fn name(self) -> &'static str {
        self.shown().1
    }

    /// Returns the code of its color on a terminal.
    pub(super) fn ansi_color(self) -> &'static str {
        self.shown().2
    }

    fn shown(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Impact::Shows => ("shows", "occurs here", "1;33"),
            Impact::Harmless => ("harmless", "occurs, nothing to do", "36"),
            Impact::Absent => ("absent", "does not occur", "32"),
            Impact::Unknown => ("unknown", "no answer", "90"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pitfall_that_shows_is_harmless_only_if_its_remedy_says_so() {
        assert_eq!(
            Impact::new(Kind::Reproduced, "Set the mask first."),
            Impact::Shows
        );
        assert_eq!(
            Impact::new(Kind::Reproduced, "None needed."),
            Impact::Harmless
        );
        assert_eq!(
            Impact::new(Kind::Reproduced, ""),
            Impact::Shows,
            "no workaround is known"
        );
        assert_eq!(
            Impact::new(Kind::NotReproduced, "None needed."),
            Impact::Absent
        );
        assert_eq!(Impact::new(Kind::Skipped, ""), Impact::Unknown);
    }
}
