//! Importance of differences: documents store their differences in this order, and every output format keeps it.

use std::cmp::Ordering;

use super::document::{Difference, Fleet, What};
use super::outliers;

/// Importance of a difference, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// A different verdict.
    Verdict,
    /// The same verdict with different facts.
    Fact,
    /// No answer, although others have one.
    NoAnswer,
    /// The same outcome with different figures.
    Bytes,
}

impl Rank {
    /// Returns the name in tables and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Rank::Verdict => "verdict",
            Rank::Fact => "fact",
            Rank::NoAnswer => "no_answer",
            Rank::Bytes => "bytes",
        }
    }

    /// All ranks, the most important first.
    pub const ALL: [Rank; 4] = [Rank::Verdict, Rank::Fact, Rank::NoAnswer, Rank::Bytes];

    /// Returns the rank of a difference.
    pub fn new(what: &What) -> Rank {
        match what {
            What::Outcome {
                verdict_differs: true,
                ..
            } => Rank::Verdict,
            What::Outcome {
                verdict_differs: false,
                ..
            } => Rank::Fact,
            What::NoAnswer { .. } => Rank::NoAnswer,
            What::Bytes { .. } => Rank::Bytes,
        }
    }
}

impl Fleet {
    /// Returns the document with sorted differences, and with the machines that differ.
    pub fn ranked(mut self) -> Fleet {
        self.differences.sort_by(Difference::by_weight);
        self.outliers = outliers::outliers(&self);
        self
    }
}

impl Difference {
    /// Orders differences by importance: a verdict before a fact, a missing answer, and bytes; a few machines of many
    /// before a group that is split; then a larger group before a smaller one.
    fn by_weight(&self, other: &Difference) -> Ordering {
        Rank::new(&self.what)
            .cmp(&Rank::new(&other.what))
            .then(self.is_split.cmp(&other.is_split))
            .then(self.machine_share().total_cmp(&other.machine_share()))
            .then(other.all_machines().cmp(&self.all_machines()))
            .then((self.question, self.group).cmp(&(other.question, other.group)))
    }

    fn all_machines(&self) -> usize {
        self.machines.len().saturating_add(self.usual_machines)
    }

    /// Returns the share of the machines that differ.
    fn machine_share(&self) -> f64 {
        self.machines.len() as f64 / (self.all_machines() as f64).max(1.0)
    }
}
