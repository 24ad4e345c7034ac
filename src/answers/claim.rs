//! Published sentences, each compared with measurements.
//!
//! [`load`] reads an article's file, [`weigh`] compares its claims with reports. A row states a
//! verdict and names the answers that support it; the verdict is given only as long as every
//! one of these answers was measured and is as the row says. Nothing here touches a clock, a file,
//! the environment or a GPU.

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

/// One published text and what it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Article {
    /// The file's name without `.toml`.
    pub name: String,
    /// The title, in English and in our own words.
    pub title: String,
    /// Title, author and day of the text, as it was published.
    pub source: String,
    /// What a reader has to know about all of its claims. Empty for most.
    pub note: String,
    /// The claims, in the order of the text.
    pub claims: Vec<Claim>,
}

/// One sentence that can be true or false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `S<article>-<number>`.
    pub id: String,
    /// The claim in our own words.
    pub says: String,
    /// What the row has to say beside its verdict. Empty for most.
    pub note: String,
    /// The verdict and what supports it, or why there can be none.
    pub row: Assessment,
}

impl Claim {
    /// Whether CUDA calls alone decide it, and no line of a framework does. The articles are about frameworks.
    pub fn is_of_calls_only(&self) -> bool {
        match &self.row {
            Assessment::Tested(tested) => !tested.shown_by.iter().any(|it| it.in_framework),
            Assessment::Untestable(_) => false,
        }
    }
}

/// What is said of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assessment {
    /// No run of this program can decide it, for this reason.
    Untestable(String),
    /// Scenarios decide it.
    Tested(Tested),
}

/// A verdict with the answers that support it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// What the row states.
    pub stated: Stated,
    /// Under which condition the claim holds. Empty but for a qualified one.
    pub condition: String,
    /// What is really behind what was observed. Empty for a confirmed claim.
    pub cause: String,
    /// The answers that decide the claim.
    pub shown_by: Vec<Expects>,
    /// The answers that show the cause.
    pub cause_shown_by: Vec<Expects>,
    /// The figures to print beside it.
    pub numbers: Vec<Figure>,
}

/// A claim compared with measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stated {
    /// It is so.
    Confirmed,
    /// It is not so.
    Refuted,
    /// It is so under a condition.
    Qualified,
    /// It says what may happen, and it was not seen: attempts cannot refute that.
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
    /// As the row names it: a scenario for all its instances, or one instance.
    pub scenario: String,
    /// The instances that are meant, in the order of the scenario's file.
    pub instances: Vec<String>,
    /// Whether it runs the lines of a framework.
    pub in_framework: bool,
    /// The answer.
    pub verdict: cuda_pitfalls_core::scenario::Expected,
    /// Only answers with a libcudart in this range count.
    pub libcudart: Option<Range>,
    /// What a case has to have shown beside the verdict, which speaks of trap and control alone.
    pub fact: Option<Wanted>,
    /// What this answer shows about the claim. Empty where the scenario's name says it.
    pub shows: String,
}

/// A fact of a step that a row needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which fact; of whichever instance is asked.
    pub figure: Figure,
    /// What it has to be, in every outcome of the case.
    pub is: serde_json::Value,
}

/// The scenario that an instance belongs to, which is also the name of its page.
pub fn scenario_of(instance: &str) -> &str {
    instance.split_once('[').map_or(instance, |(scenario, _)| scenario)
}

/// Whether an answer with this libcudart is in a range. Where none is asked for, every one is.
fn is_meant(range: Option<&Range>, libcudart: Option<&str>) -> bool {
    range.is_none_or(|range| libcudart.is_some_and(|version| range.matches(version)))
}
