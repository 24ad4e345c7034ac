//! Comparing claims with reports.

use cuda_pitfalls::report::{Report, ScenarioReport};
use cuda_pitfalls::scenario::Range;
use cuda_pitfalls::text::counts::grouped;
use cuda_pitfalls::verdict::Verdict;

use super::{Article, Claim, Expects, Figure};
use crate::page::{interpreter, python_in_words};

/// The articles, each with what the reports say of its claims.
pub type Ledger<'a> = Vec<(&'a Article, Vec<Weighed<'a>>)>;

/// A claim, and what follows for it.
#[derive(Clone, Debug)]
pub struct Weighed<'a> {
    pub(super) claim: &'a Claim,
    pub(super) held: ClaimHeld,
    pub(super) shown_by: Vec<Support<'a>>,
    pub(super) cause_shown_by: Vec<Support<'a>>,
    pub(super) numbers: Vec<(&'a Figure, Readings<'a>)>,
}

/// The values of a figure in words, each with where it was measured.
pub(super) type Readings<'a> = Vec<(String, Vec<Origin<'a>>)>;

#[derive(Clone, Debug)]
pub(super) struct Support<'a> {
    pub(super) expects: &'a Expects,
    held: ClaimHeld,
    /// One for each instance and report. An instance that is in no report has one without a verdict.
    pub(super) answers: Vec<ReportAnswer<'a>>,
}

/// The answer of one report about one instance.
#[derive(Clone, Debug)]
pub(super) struct ReportAnswer<'a> {
    pub(super) instance: &'a str,
    pub(super) verdict: Option<&'a Verdict>,
    pub(super) origin: Option<Origin<'a>>,
    /// Whether the fact that the row needs was found; `None` if it could not be read, and true if no fact is needed.
    pub(super) fact: Option<bool>,
    contradicts: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Origin<'a> {
    pub(super) report: &'a str,
    pub(super) libcudart: Option<&'a str>,
    /// The interpreter with the packages that the lines need, in words; `None` for calls.
    pub(super) python: Option<String>,
}

/// Whether what a row states was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimHeld {
    /// All of it was found.
    Stands,
    /// None of it was measured, or nothing could be concluded.
    NotMeasured,
    /// Some of it was found, and some was not measured.
    Open,
    /// Some report contradicts it.
    Contradicted,
}

/// Compares claims with reports that were judged by today's scenarios, each with the name of its folder.
pub fn weigh<'a>(articles: &'a [Article], reports: &'a [(String, Report)]) -> Ledger<'a> {
    let weighed = articles.iter();
    weighed
        .map(|it| {
            (
                it,
                it.claims
                    .iter()
                    .map(|claim| Weighed::new(claim, reports))
                    .collect(),
            )
        })
        .collect()
}

impl<'a> Weighed<'a> {
    fn new(claim: &'a Claim, reports: &'a [(String, Report)]) -> Weighed<'a> {
        let [shown_by, cause_shown_by] = [&claim.shown_by, &claim.cause_shown_by].map(|all| {
            all.iter()
                .map(|expects| Support::new(expects, reports))
                .collect::<Vec<_>>()
        });
        let held = together(
            shown_by
                .iter()
                .chain(&cause_shown_by)
                .map(|support| support.held),
        );
        let numbers = claim
            .numbers
            .iter()
            .map(|figure| (figure, readings(figure, reports)))
            .collect();
        Weighed {
            claim,
            held,
            shown_by,
            cause_shown_by,
            numbers,
        }
    }

    /// The verdict, or why there is none.
    pub fn word(&self) -> &'static str {
        match (self.claim.verdict, self.held) {
            (None, _) if !self.claim.unmeasured.is_empty() => "not measured",
            (None, _) => "untestable",
            (Some(stated), ClaimHeld::Stands) => stated.name(),
            (Some(_), ClaimHeld::Contradicted) => "contradicted",
            (Some(_), ClaimHeld::Open) => "open",
            (Some(_), ClaimHeld::NotMeasured) => "not measured",
        }
    }

    /// Whether it has a verdict: every answer of the row was found.
    pub fn has_verdict(&self) -> bool {
        self.held == ClaimHeld::Stands
    }

    /// Whether CUDA calls alone decided it.
    pub fn is_decided_by_calls(&self) -> bool {
        self.has_verdict() && self.claim.is_of_calls_only()
    }
}

impl<'a> Support<'a> {
    fn new(expects: &'a Expects, reports: &'a [(String, Report)]) -> Support<'a> {
        let answers: Vec<Vec<ReportAnswer<'_>>> = expects
            .instances
            .iter()
            .map(|instance| ReportAnswer::all(expects, instance, reports))
            .collect();
        // A single contradiction decides.
        let held = together(answers.iter().map(|own| {
            if own.iter().any(|answer| answer.contradicts) {
                ClaimHeld::Contradicted
            } else if own.iter().any(ReportAnswer::is_conclusive) {
                ClaimHeld::Stands
            } else {
                ClaimHeld::NotMeasured
            }
        }));
        Support {
            expects,
            held,
            answers: answers.concat(),
        }
    }
}

impl<'a> ReportAnswer<'a> {
    /// The answers of all reports about an instance. If some report has an answer, reports without one are left out.
    fn all(
        expects: &'a Expects,
        instance: &'a str,
        reports: &'a [(String, Report)],
    ) -> Vec<ReportAnswer<'a>> {
        let mut all: Vec<ReportAnswer<'_>> = parts(instance, expects.libcudart.as_ref(), reports)
            .map(|(origin, part)| {
                let (kind, fact) = (part.verdict.kind, expects.is_met_by(part));
                let contradicts =
                    kind.is_conclusive() && (kind != expects.verdict.kind() || fact == Some(false));
                ReportAnswer {
                    instance,
                    verdict: Some(&part.verdict),
                    origin: Some(origin),
                    fact,
                    contradicts,
                }
            })
            .collect();
        if all.iter().any(ReportAnswer::is_conclusive) {
            all.retain(ReportAnswer::is_conclusive);
        }
        if all.is_empty() {
            all.push(ReportAnswer {
                instance,
                verdict: None,
                origin: None,
                fact: None,
                contradicts: false,
            });
        }
        all
    }

    /// Whether the question was answered, and the fact that the row needs could be read.
    fn is_conclusive(&self) -> bool {
        self.verdict
            .is_some_and(|verdict| verdict.kind.is_conclusive())
            && (self.contradicts || self.fact.is_some())
    }
}

impl Expects {
    /// Whether every outcome of the case has the fact; `None` if it could not be read.
    fn is_met_by(&self, part: &ScenarioReport) -> Option<bool> {
        let Some(wanted) = &self.is else {
            return Some(true);
        };
        let outcomes = &part.case(&self.case)?.outcomes;
        let mut all = (!outcomes.is_empty()).then_some(true);
        for outcome in outcomes {
            let seen = self.place().seen(&outcome.observation)?.exact;
            // A status is compared by its C name; its number is only for the reader.
            let holds = seen == *wanted || seen.get("name").is_some_and(|name| name == wanted);
            all = all.map(|so_far| so_far && holds);
        }
        all
    }
}

/// A figure in every report that answered its question.
fn readings<'a>(figure: &'a Figure, reports: &'a [(String, Report)]) -> Readings<'a> {
    let answered = parts(&figure.scenario, None, reports)
        .filter(|(_, part)| part.verdict.kind.is_conclusive());
    grouped(answered.filter_map(|(origin, part)| {
        let outcome = part.case(&figure.case)?.outcomes.first()?;
        Some((figure.place().seen(&outcome.observation)?.words, origin))
    }))
}

/// What reports hold of an instance, with a libcudart in a range if there is one.
fn parts<'a>(
    instance: &'a str,
    libcudart: Option<&'a Range>,
    reports: &'a [(String, Report)],
) -> impl Iterator<Item = (Origin<'a>, &'a ScenarioReport)> {
    let all = reports.iter().flat_map(|(name, report)| {
        report
            .scenarios
            .iter()
            .map(move |part| (name, report, part))
    });
    let own = all.filter(move |(.., part)| part.name == instance);
    let found = own.map(|(name, report, part)| (Origin::new(name, report, part), part));
    found.filter(move |(origin, _)| {
        libcudart.is_none_or(|range| origin.libcudart.is_some_and(|it| range.matches(it)))
    })
}

impl<'a> Origin<'a> {
    fn new(name: &'a str, report: &'a Report, part: &'a ScenarioReport) -> Origin<'a> {
        Origin {
            report: name,
            libcudart: part
                .libcudart
                .as_ref()
                .and_then(|runtime| runtime.version.as_deref()),
            python: interpreter(&report.machine, part)
                .as_ref()
                .map(python_in_words),
        }
    }
}

/// What follows from several parts, all of which are needed.
fn together(parts: impl Iterator<Item = ClaimHeld>) -> ClaimHeld {
    let mut parts: Vec<ClaimHeld> = parts.collect();
    parts.dedup();
    match parts[..] {
        _ if parts.contains(&ClaimHeld::Contradicted) => ClaimHeld::Contradicted,
        [] => ClaimHeld::NotMeasured,
        [held] => held,
        _ => ClaimHeld::Open,
    }
}
