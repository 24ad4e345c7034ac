//! Published claims, compared with measurements.
//!
//! [`load`] reads an article's file, and [`weigh`] compares its claims with reports. A row states a verdict and names
//! the answers that support it. The verdict is shown only if every one of these answers was measured and is as the
//! row says. Nothing here uses a clock, a file, the environment or a GPU.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod evidence;
mod figure;
#[doc(hidden)]
pub mod fixture;
mod load;
mod weigh;

pub use evidence::{Evidence, EvidenceSource, NamedReport};
pub use figure::{Figure, FigureReading, FigureReadings, Printed};
pub use load::{load, load_all};
pub use weigh::wanted;
pub use weigh::{ClaimAnswer, Held, Ledger, Support, Weighed, weigh};

use cuda_pitfalls_core::scenario::Range;

/// One published text and its claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Article {
    /// The file's name without `.toml`.
    pub name: String,
    /// The title, in English and in our own words.
    pub title: String,
    /// Title, author and date of the text, as published.
    pub source: String,
    /// A note about all of its claims; usually empty.
    pub note: String,
    /// The claims, in the order of the text.
    pub claims: Vec<Claim>,
}

/// One sentence that is true or false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `S<article>-<number>`.
    pub id: String,
    /// The claim in our own words.
    pub says: String,
    /// A note beside the verdict; usually empty.
    pub note: String,
    /// The verdict and what supports it, or why the claim cannot be tested.
    pub row: Assessment,
}

impl Claim {
    /// Whether CUDA calls alone decide the claim, without lines of a framework. The articles are about frameworks.
    pub fn is_of_calls_only(&self) -> bool {
        match &self.row {
            Assessment::Tested(tested) => !tested.shown_by.iter().any(|answer| answer.in_framework),
            Assessment::Untestable(_) => false,
        }
    }
}

/// How a claim is assessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assessment {
    /// No run of this program can decide it, for this reason.
    Untestable(String),
    /// Scenarios decide it.
    Tested(Tested),
}

/// A verdict, and the answers that support it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// The verdict that the row states.
    pub stated: Stated,
    /// The condition under which the claim holds; empty unless it is qualified.
    pub condition: String,
    /// The real cause of what people observed; empty for a confirmed claim.
    pub cause: String,
    /// The answers that decide the claim.
    pub shown_by: Vec<Expects>,
    /// The answers that show this cause.
    pub cause_shown_by: Vec<Expects>,
    /// The figures to print beside the verdict.
    pub numbers: Vec<Figure>,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stated {
    /// The claim is true.
    Confirmed,
    /// The claim is false.
    Refuted,
    /// The claim is true under a condition.
    Qualified,
    /// The claim says what may happen, and it did not happen. Attempts cannot refute such a claim.
    NotSeen,
}

impl Stated {
    /// The word in files and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Stated::Confirmed => "confirmed",
            Stated::Refuted => "refuted",
            Stated::Qualified => "qualified",
            Stated::NotSeen => "not_seen",
        }
    }
}

/// The answer that a row needs from a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expects {
    /// The name in the row: a scenario, for all of its instances, or one instance.
    pub scenario: String,
    /// The instances, in the order of the scenario's file.
    pub instances: Vec<String>,
    /// Whether the scenario runs lines of a framework.
    pub in_framework: bool,
    /// The answer.
    pub verdict: cuda_pitfalls_core::scenario::Expected,
    /// Only answers with a libcudart in this range count; `None` for any.
    pub libcudart: Option<Range>,
    /// A fact that a case must have shown. The verdict only compares trap and control.
    pub fact: Option<Wanted>,
    /// What this answer shows about the claim; empty if the scenario's name says it.
    pub shows: String,
}

/// A fact of a step that a row needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The fact, for any instance that is asked.
    pub figure: Figure,
    /// Its value in every outcome of the case.
    pub is: serde_json::Value,
}

/// The scenario of an instance, which is also the name of its page.
pub fn scenario_of(instance: &str) -> &str {
    instance.split_once('[').map_or(instance, |(scenario, _)| scenario)
}

/// Whether the libcudart of an answer is in a range; true without a range.
fn is_meant(range: Option<&Range>, libcudart: Option<&str>) -> bool {
    range.is_none_or(|range| libcudart.is_some_and(|version| range.matches(version)))
}
