//! What differs by cause, in words: one line, whether it shows in one question or in forty.

use cuda_pitfalls_answers::fleet::{Alike, Fleet, SharedCause, causes};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;

use super::words::{Contrast, Deviation};

/// A cause shows at most this many contrasts.
const MOST_CONTRASTS: usize = 4;

/// A cause with its differences in words.
pub(super) struct FleetFinding<'t, 'a> {
    pub(super) cause: SharedCause,
    pub(super) first: &'t Deviation<'a>,
    pub(super) all: Vec<&'t Deviation<'a>>,
}

/// The causes, the most important first.
pub(super) fn findings<'t, 'a>(fleet: &Fleet, told: &'t [Deviation<'a>]) -> Vec<FleetFinding<'t, 'a>> {
    let findings = causes(fleet).into_iter().filter_map(|cause| {
        let all: Vec<&Deviation<'_>> = cause.differences.iter().filter_map(|index| told.get(*index)).collect();
        all.first().copied().map(|first| FleetFinding { cause, first, all })
    });
    findings.collect()
}

impl<'a> FleetFinding<'_, 'a> {
    /// The one question in which it shows, if it is one.
    pub(super) fn is_of_one_question(&self) -> bool {
        self.cause.questions.len() == 1
    }

    /// `18 questions`, or the name of the one.
    pub(super) fn subject(&self) -> String {
        match self.cause.questions.len() {
            1 => self.first.name.to_owned(),
            count => counted(count as u64, "question"),
        }
    }

    /// `a context takes 40 MiB more on 1 of 5 machines`.
    pub(super) fn share(&self) -> String {
        match &self.cause.alike {
            Alike::Bytes { more_bytes, is_context } => {
                let amount = units::bytes(more_bytes.unsigned_abs());
                let more = if *more_bytes < 0 { "less" } else { "more" };
                let what = if *is_context { "a context takes " } else { "" };
                self.first.share_of(&format!("{what}{amount} {more}"))
            }
            Alike::NoAnswer { reasons } if !self.is_of_one_question() => {
                self.first.share_of(&format!("no answer ({})", reasons.join(", ")))
            }
            _ => self.first.share(),
        }
    }

    /// What is known by the labels of the machines: `all machines with rack=3, and no others`.
    pub(super) fn labels(&self) -> Option<String> {
        (!self.cause.labels.is_empty())
            .then(|| format!("all machines with {}, and no others", self.cause.labels.join(" or ")))
    }

    /// Both sides, and how many more there are: of one question all that differs, and of several those of the first.
    pub(super) fn contrasts(&self) -> (Vec<&'_ Contrast>, Option<String>) {
        let count = if self.is_of_one_question() { self.all.len() } else { 1 };
        let mut contrasts: Vec<&Contrast> = self.all.iter().take(count).flat_map(|one| &one.contrasts).collect();
        let more = contrasts.len().saturating_sub(MOST_CONTRASTS);
        contrasts.truncate(MOST_CONTRASTS);
        (contrasts, (more > 0).then(|| format!("and {more} more")))
    }

    /// The names of its questions, each once, with the index of the first difference in it.
    pub(super) fn questions(&self) -> Vec<(usize, &'a str)> {
        let mut seen = std::collections::HashSet::new();
        let all = self.cause.differences.iter().zip(&self.all);
        all.filter(|(_, one)| seen.insert(one.difference.question)).map(|(index, one)| (*index, one.name)).collect()
    }
}
