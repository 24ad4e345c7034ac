//! What an answer means to whom it concerns: whether the pitfall bites on this machine.
//!
//! [`super::tally::Standing`] says whether an answer is the expected one, which is what a maintainer of expectations
//! asks. An expected yes is no good news for a user.

use cuda_pitfalls_core::report::ScenarioView;
use cuda_pitfalls_core::scenario::needs_nothing;
use cuda_pitfalls_core::verdict::Kind;

/// What an answer means, what calls for action first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bearing {
    /// The pitfall shows.
    Bites,
    /// What is asked about happens, and nothing has to be done.
    Harmless,
    /// The pitfall does not show.
    Absent,
    /// There is no answer.
    Open,
}

impl Bearing {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Bearing; 4] = [Bearing::Bites, Bearing::Harmless, Bearing::Absent, Bearing::Open];

    /// What an answer of this kind means; `remedy` is the workaround, if the report has one.
    pub fn of(kind: Kind, remedy: Option<&str>) -> Bearing {
        match kind {
            Kind::Reproduced if remedy.is_some_and(needs_nothing) => Bearing::Harmless,
            Kind::Reproduced => Bearing::Bites,
            Kind::NotReproduced => Bearing::Absent,
            Kind::Inconclusive | Kind::Skipped | Kind::HarnessError => Bearing::Open,
        }
    }

    /// What the answer of an instance means.
    pub fn of_scenario(scenario: &ScenarioView<'_>) -> Bearing {
        Bearing::of(scenario.verdict.kind, scenario.remedy)
    }

    /// The class that gives it its colour on a page, and what a filter selects by.
    pub(super) fn class(self) -> &'static str {
        match self {
            Bearing::Bites => "bites",
            Bearing::Harmless => "harmless",
            Bearing::Absent => "absent",
            Bearing::Open => "open",
        }
    }

    /// What is counted under it.
    pub fn name(self) -> &'static str {
        match self {
            Bearing::Bites => "shows here",
            Bearing::Harmless => "shows, nothing to do",
            Bearing::Absent => "does not show",
            Bearing::Open => "no answer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_bites_unless_nothing_has_to_be_done() {
        assert_eq!(Bearing::of(Kind::Reproduced, Some("Set the mask first.")), Bearing::Bites);
        assert_eq!(Bearing::of(Kind::Reproduced, Some("None needed.")), Bearing::Harmless);
        assert_eq!(Bearing::of(Kind::Reproduced, None), Bearing::Bites);
        assert_eq!(Bearing::of(Kind::Reproduced, Some("")), Bearing::Bites, "no workaround is known");
        assert_eq!(Bearing::of(Kind::NotReproduced, Some("None needed.")), Bearing::Absent);
        assert_eq!(Bearing::of(Kind::Skipped, None), Bearing::Open);
    }
}
