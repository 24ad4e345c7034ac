//! Comparing claims with reports.

use super::{
    Article, Assessment, Claim, Evidence, EvidenceSource, Expects, FigureReadings, Stated, Tested, figure, is_meant,
};
use crate::exit::Exit;
use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::scenario::Expected;
use cuda_pitfalls_core::verdict::{Kind, Verdict};

/// All claims, and what follows for them from some reports.
#[derive(Clone, Debug)]
pub struct Ledger<'a> {
    /// The articles with their claims.
    pub articles: Vec<(&'a Article, Vec<Weighed<'a>>)>,
    /// Whether a simulated machine answered. Then nothing counts as measured.
    pub simulated: bool,
}

/// A claim, and what follows for it.
#[derive(Clone, Debug)]
pub struct Weighed<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Whether the stated verdict holds; `None` if no verdict is stated.
    pub held: Option<Held>,
    /// The answers that decide it.
    pub shown_by: Vec<Support<'a>>,
    /// The answers that show the cause.
    pub cause_shown_by: Vec<Support<'a>>,
    /// The figures to print.
    pub numbers: Vec<FigureReadings<'a>>,
}

/// An answer that a row needs, and what was found, with one entry per instance and report.
#[derive(Clone, Debug)]
pub struct Support<'a> {
    /// The answer that the row needs.
    pub expects: &'a Expects,
    /// Whether it was found.
    pub held: Held,
    /// What was found. An instance that is in no report has an entry without an answer.
    pub answers: Vec<ClaimAnswer>,
}

/// The answer of one report about one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimAnswer {
    /// The instance.
    pub instance: String,
    /// The verdict; `None` if no report has the instance.
    pub verdict: Option<Verdict>,
    /// Where it was measured.
    pub place: Option<EvidenceSource>,
    /// Whether the fact that the row needs was found; `None` if it could not be read, and true if no fact is needed.
    pub fact: Option<bool>,
    /// Whether the report contradicts the row.
    pub contradicts: bool,
}

/// Whether what a row states was found, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// All of it was found.
    Stands,
    /// None of it was measured, or nothing could be concluded.
    NotMeasured,
    /// Some of it was found, and some was not measured.
    Open,
    /// Some report contradicts it.
    Contradicted,
}

/// Compares claims with reports.
pub fn weigh<'a>(articles: &'a [Article], evidence: &Evidence) -> Ledger<'a> {
    let weighed = |article: &'a Article| {
        let claims = article.claims.iter().map(|claim| Weighed::of(claim, evidence));
        (article, claims.collect())
    };
    Ledger { articles: articles.iter().map(weighed).collect(), simulated: evidence.is_simulated() }
}

impl<'a> Weighed<'a> {
    fn of(claim: &'a Claim, evidence: &Evidence) -> Weighed<'a> {
        let Assessment::Tested(Tested { shown_by, cause_shown_by, numbers, .. }) = &claim.row else {
            let (shown_by, cause_shown_by, numbers) = (Vec::new(), Vec::new(), Vec::new());
            return Weighed { claim, held: None, shown_by, cause_shown_by, numbers };
        };
        let supports =
            |all: &'a [Expects]| all.iter().map(|expects| Support::of(expects, evidence)).collect::<Vec<_>>();
        let (shown_by, cause_shown_by) = (supports(shown_by), supports(cause_shown_by));
        let held = together(shown_by.iter().chain(&cause_shown_by).map(|support| support.held));
        let numbers = numbers.iter().map(|figure| FigureReadings::of(figure, evidence)).collect();
        Weighed { claim, held: Some(held), shown_by, cause_shown_by, numbers }
    }

    /// The verdict, if it holds. It needs every answer of the row.
    pub fn verdict(&self) -> Option<Stated> {
        match &self.claim.row {
            Assessment::Tested(tested) if self.held == Some(Held::Stands) => Some(tested.stated),
            _ => None,
        }
    }
}

impl<'a> Support<'a> {
    fn of(expects: &'a Expects, evidence: &Evidence) -> Support<'a> {
        let mut answers = Vec::new();
        let mut found = Vec::new();
        for instance in &expects.instances {
            let own: Vec<ClaimAnswer> = ClaimAnswer::all(expects, instance, evidence);
            found.push(together_in_reports(&own));
            answers.extend(own);
        }
        Support { expects, held: together(found.into_iter()), answers }
    }
}

impl ClaimAnswer {
    /// The answers of all reports about an instance. If some report has an answer, reports without one are left out.
    fn all(expects: &Expects, instance: &str, evidence: &Evidence) -> Vec<ClaimAnswer> {
        let of_report = |(place, scenario): (EvidenceSource, &ScenarioReport)| {
            let kind = scenario.verdict.kind;
            let fact = expects.fact.as_ref().map_or(Some(true), |fact| figure::is(&fact.figure, scenario, &fact.is));
            ClaimAnswer {
                instance: instance.to_owned(),
                verdict: Some(scenario.verdict.clone()),
                place: Some(place),
                fact,
                contradicts: kind.is_conclusive() && (kind != wanted(expects.verdict) || fact == Some(false)),
            }
        };
        let meant = |place: &EvidenceSource| is_meant(expects.libcudart.as_ref(), place.libcudart.as_deref());
        let mut all: Vec<ClaimAnswer> =
            evidence.of(instance).filter(|(place, _)| meant(place)).map(of_report).collect();
        if all.iter().any(ClaimAnswer::is_conclusive) {
            all.retain(ClaimAnswer::is_conclusive);
        }
        if all.is_empty() {
            let instance = instance.to_owned();
            all.push(ClaimAnswer { instance, verdict: None, place: None, fact: None, contradicts: false });
        }
        all
    }

    /// Whether the question was answered, and the fact that the row needs could be read.
    pub fn is_conclusive(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.kind.is_conclusive())
            && (self.contradicts || self.fact.is_some())
    }
}

/// The verdict that a row needs, as reports store it.
pub fn wanted(expected: Expected) -> Kind {
    match expected {
        Expected::Reproduced => Kind::Reproduced,
        Expected::NotReproduced => Kind::NotReproduced,
    }
}

/// What the reports say together about one instance: a single contradiction decides.
fn together_in_reports(answers: &[ClaimAnswer]) -> Held {
    if answers.iter().any(|answer| answer.contradicts) {
        Held::Contradicted
    } else if answers.iter().any(ClaimAnswer::is_conclusive) {
        Held::Stands
    } else {
        Held::NotMeasured
    }
}

/// What follows from several parts, all of which are needed.
fn together(parts: impl Iterator<Item = Held>) -> Held {
    let parts: Vec<Held> = parts.collect();
    let all = |held: Held| parts.iter().all(|part| *part == held);
    if parts.contains(&Held::Contradicted) {
        Held::Contradicted
    } else if parts.is_empty() || all(Held::NotMeasured) {
        Held::NotMeasured
    } else if all(Held::Stands) {
        Held::Stands
    } else {
        Held::Open
    }
}

impl<'a> Ledger<'a> {
    /// Every claim, in order.
    pub fn claims(&self) -> impl Iterator<Item = (&'a Article, &Weighed<'a>)> {
        self.articles.iter().flat_map(|(article, claims)| claims.iter().map(move |claim| (*article, claim)))
    }

    /// The exit code: 0 only if measurements support every testable claim.
    pub fn exit(&self) -> Exit {
        let has_any = |held: Held| self.claims().any(|(_, claim)| claim.held == Some(held));
        let any = has_any(Held::Stands) || has_any(Held::Open) || has_any(Held::Contradicted);
        if self.simulated || !any {
            // Answers of a simulated machine are not measurements.
            Exit::NothingMeasured
        } else if has_any(Held::Contradicted) {
            Exit::Unexpected
        } else if has_any(Held::Open) || has_any(Held::NotMeasured) {
            Exit::Inconclusive
        } else {
            Exit::Ok
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::fixture::{answer, answers, articles, evidence};
    use cuda_pitfalls_core::report::ScenarioReport;

    /// What these reports mean for the three claims, and for the exit code.
    fn stand(provenance: &str, reports: Vec<Vec<ScenarioReport>>) -> (Vec<Option<Held>>, Exit) {
        let articles = articles();
        let ledger = weigh(&articles, &evidence(provenance, reports));
        (ledger.claims().map(|(_, claim)| claim.held).collect(), ledger.exit())
    }

    #[test]
    fn a_verdict_stands_on_all_that_its_row_names() {
        let whole = stand("measured", vec![answers()]);
        assert_eq!(whole, (vec![Some(Held::Stands), Some(Held::Stands), None], Exit::Ok));
        let (first, second) = (answers()[..2].to_vec(), answers()[2..].to_vec());
        assert_eq!(stand("measured", vec![first, second]), whole, "reports are taken together");
    }

    #[test]
    fn what_was_not_measured_leaves_a_row_open() {
        let part = answers()[..3].to_vec();
        assert_eq!(
            stand("measured", vec![part]),
            (vec![Some(Held::Stands), Some(Held::Open), None], Exit::Inconclusive)
        );
        let part = answers()[..1].to_vec();
        let open = vec![Some(Held::Open), Some(Held::NotMeasured), None];
        assert_eq!(stand("measured", vec![part]), (open, Exit::Inconclusive));
        assert_eq!(stand("measured", Vec::new()).1, Exit::NothingMeasured);
        let skipped = vec![answer("context/guard", "skipped", "13.0")];
        assert_eq!(stand("measured", vec![skipped]).1, Exit::NothingMeasured);
    }

    #[test]
    fn one_contradiction_is_not_outvoted() {
        let mut other = answers();
        other[3] = answer("context/query[q=b]", "reproduced", "13.0");
        let held = vec![Some(Held::Stands), Some(Held::Contradicted), None];
        assert_eq!(stand("measured", vec![answers(), other]), (held, Exit::Unexpected));
        // The same verdict, but with another libcudart than the row needs.
        let other = vec![answer("context/guard", "reproduced", "11.8")];
        assert_eq!(stand("measured", vec![answers(), other]).0[0], Some(Held::Contradicted));
    }

    #[test]
    fn a_fact_is_needed_beside_the_verdict() {
        let mut all = answers();
        all[0].cases[0].outcomes[0].observation.steps[0].contexts = Some(Vec::new());
        assert_eq!(stand("measured", vec![all]).0[0], Some(Held::Contradicted));
        let mut all = answers();
        all[0].cases[0].outcomes[0].observation.steps[0].contexts = None;
        assert_eq!(stand("measured", vec![all]).0[0], Some(Held::Open), "what was not read decides nothing");
    }

    #[test]
    fn a_machine_that_gave_no_answer_does_not_weaken_one_that_did() {
        let articles = articles();
        let skipped = vec![answer("context/query[q=a]", "skipped", "13.0")];
        let ledger = weigh(&articles, &evidence("measured", vec![answers(), skipped]));
        let weighed = &ledger.articles[0].1[1];
        assert_eq!(weighed.verdict(), Some(Stated::Refuted));
        assert_eq!(weighed.shown_by[0].answers.len(), 2);
    }

    #[test]
    fn a_simulated_machine_measures_nothing() {
        assert_eq!(stand("simulated", vec![answers()]).1, Exit::NothingMeasured);
    }

    #[test]
    fn a_verdict_without_attempts_is_no_evidence() {
        let articles = articles();
        let told = evidence("measured", vec![answers()]);
        let judged = Evidence::new(told.sources().to_vec(), &[]);
        assert_eq!(weigh(&articles, &judged).exit(), Exit::NothingMeasured);
    }

    #[test]
    fn figures_are_read_where_there_was_an_answer() {
        let articles = articles();
        let ledger = weigh(&articles, &evidence("measured", vec![answers(), answers()]));
        let numbers = &ledger.articles[0].1[0].numbers;
        assert_eq!(numbers[0].readings.len(), 4);
        let distinct = numbers[0].distinct();
        assert_eq!((distinct.len(), distinct[0].0), (1, "gpu0 +527 MiB"));
        assert_eq!(numbers[0].readings[0].value, 527_i64 << 20);
        assert_eq!(numbers[1].distinct()[0].0, "ended 0");
    }
}
