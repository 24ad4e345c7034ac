//! Sentences with counts: how many questions and claims there are, and the evidence for the answers. README.md has
//! short ones, docs/results.md long ones.
//!
//! Pure: these pages have a pair of comments around each sentence, and the text between them is generated here.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::summary::{Basis, machines_in_words};

use crate::TaskError;
use crate::claim::{Ledger, Weighed};

/// How many claims there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    all: usize,
    articles: usize,
    confirmed: usize,
    refuted: usize,
    qualified: usize,
    not_seen: usize,
    untestable: usize,
    /// How many claims with a verdict do not depend on a line of a framework.
    calls_only: usize,
}

impl Claims {
    /// The numbers of claims in a ledger.
    pub fn of(ledger: &Ledger<'_>) -> Claims {
        let all: Vec<&Weighed<'_>> = ledger.iter().flat_map(|(_, claims)| claims).collect();
        let count = |word: &str| all.iter().filter(|claim| claim.word() == word).count();
        Claims {
            all: all.len(),
            articles: ledger.len(),
            confirmed: count("confirmed"),
            refuted: count("refuted"),
            qualified: count("qualified"),
            not_seen: count("not seen"),
            untestable: count("untestable"),
            calls_only: all.iter().filter(|claim| claim.is_decided_by_calls()).count(),
        }
    }

    fn short(&self) -> String {
        format!(
            "Of {} claims in {} articles, {} are confirmed, {} refuted, and {} right only under a condition \
             ([docs/claims.md](docs/claims.md)).",
            self.all, self.articles, self.confirmed, self.refuted, self.qualified,
        )
    }

    fn sentence(&self) -> String {
        let verdicts = self.confirmed + self.refuted + self.qualified + self.not_seen;
        let waiting = self.all - verdicts - self.untestable;
        format!(
            "Published claims are tested against the same measurements: of {} claims in {} articles, {} are confirmed, \
             {} refuted and {} right only under a condition; {} looked for and not seen, {} cannot be tested, and {} to \
             be measured. {} of the {verdicts} verdicts rest on lines of the frameworks that the articles are about, \
             the others on CUDA calls alone. [claims.md](claims.md) lists them one by one and says which.",
            self.all,
            self.articles,
            self.confirmed,
            self.refuted,
            self.qualified,
            was(self.not_seen),
            self.untestable,
            match waiting {
                1 => "1 waits".to_owned(),
                some => format!("{some} wait"),
            },
            verdicts - self.calls_only,
        )
    }
}

fn was(count: usize) -> String {
    if count == 1 { "1 was".to_owned() } else { format!("{count} were") }
}

/// What the sentences count.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// All scenarios.
    pub scenarios: &'a [Scenario],
    /// The evidence for each answer, by scenario name.
    pub bases: &'a BTreeMap<String, Basis>,
    /// All claims.
    pub claims: &'a Claims,
}

impl Counted<'_> {
    /// README.md with new counts.
    ///
    /// # Errors
    /// A pair of comments is missing.
    pub fn in_readme(&self, page: &str) -> Result<String, TaskError> {
        let answered = format!(
            "{} of {} questions have an answer, measured on {}: [docs/results.md](docs/results.md) is a page of them, \
             and [docs/findings.md](docs/findings.md) begins where NVIDIA's documentation says something else.",
            self.answered(),
            self.scenarios.len(),
            self.machines(),
        );
        between(&between(page, "answers", &answered)?, "claims", &self.claims.short())
    }

    /// docs/results.md with new counts.
    ///
    /// # Errors
    /// A pair of comments is missing.
    pub fn in_results(&self, page: &str) -> Result<String, TaskError> {
        between(&between(page, "answers", &self.answers())?, "claims", &self.claims.sentence())
    }

    fn answered(&self) -> usize {
        self.scenarios.iter().filter(|scenario| !scenario.answer.is_empty()).count()
    }

    fn machines(&self) -> String {
        let machines: BTreeSet<String> = self.bases.values().flat_map(|basis| basis.machines.iter().cloned()).collect();
        machines_in_words(&machines.into_iter().collect::<Vec<_>>())
    }

    fn answers(&self) -> String {
        let instances = self.scenarios.iter().filter_map(|scenario| scenario.instances.first());
        let cases: usize = instances.map(|instance| instance.cases.len()).sum();
        let count = |is: fn(&Basis) -> bool| self.bases.values().filter(|basis| is(basis)).count();
        format!(
            "{} scenarios with {cases} cases; {} of them have an answer so far. They were measured on {}. {} of the \
             answers rest on three attempts or more in one run, {} on a single attempt, and {} on nothing but runs \
             that were interrupted. Each page says which, and [provenance.md](provenance.md) where each report comes \
             from.",
            self.scenarios.len(),
            self.answered(),
            self.machines(),
            count(|basis| basis.most >= 3),
            count(Basis::is_single),
            count(Basis::is_of_interrupted_runs),
        )
    }
}

/// A text in which the part between two comments is replaced.
fn between(text: &str, name: &str, made: &str) -> Result<String, TaskError> {
    let (from, to) = (format!("<!-- made: {name} -->\n"), "\n<!-- end -->");
    let missing = || format!("the page has no `{}` with a `{}` behind it", from.trim_end(), to.trim_start());
    let (head, rest) = text.split_once(&from).ok_or_else(missing)?;
    let (_, tail) = rest.split_once(to).ok_or_else(missing)?;
    Ok(format!("{head}{from}{made}{to}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_comments_changes() {
        let text = "before\n<!-- made: claims -->\nold\n<!-- end -->\nafter\n";
        let made = "before\n<!-- made: claims -->\nnew\n<!-- end -->\nafter\n";
        assert_eq!(between(text, "claims", "new").unwrap(), made);
        assert!(between(text, "answers", "new").is_err());
    }

    #[test]
    fn bases_are_counted() {
        let basis = |least, runs, interrupted| Basis { least, most: least, runs, interrupted, ..Basis::default() };
        let bases = [("a", basis(5, 2, 0)), ("b", basis(1, 1, 1)), ("c", basis(2, 2, 2)), ("d", basis(1, 2, 0))];
        let bases: BTreeMap<String, Basis> = bases.into_iter().map(|(name, basis)| (name.to_owned(), basis)).collect();
        let counted = Counted { scenarios: &[], bases: &bases, claims: &Claims::default() };
        let page = "<!-- made: answers -->\n\n<!-- end -->\n<!-- made: claims -->\n\n<!-- end -->\n";
        let said = counted.in_results(page).unwrap();
        for part in ["1 of the answers rest on three", "1 on a single attempt", "and 2 on nothing but runs"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
