//! Sentences with counts: how many questions and claims there are, and the evidence for the answers. README.md has
//! short ones, docs/results.md long ones.
//!
//! Pure: these pages have a pair of comments around each sentence, and the text between them is generated here.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::known::{Basis, machines_in_words};
use cuda_pitfalls::scenario::Scenario;

use crate::TaskError;
use crate::claim::{Ledger, Weighed};

/// What the sentences count.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// All scenarios.
    pub scenarios: &'a [Scenario],
    /// The evidence for each answer, by scenario name.
    pub bases: &'a BTreeMap<String, Basis>,
    /// All claims.
    pub claims: &'a Ledger<'a>,
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
        between(
            &between(page, "answers", &answered)?,
            "claims",
            &self.verdicts("docs/claims.md"),
        )
    }

    /// docs/results.md with new counts.
    ///
    /// # Errors
    /// A pair of comments is missing.
    pub fn in_results(&self, page: &str) -> Result<String, TaskError> {
        between(
            &between(page, "answers", &self.answers())?,
            "claims",
            &self.verdicts("claims.md"),
        )
    }

    fn answered(&self) -> usize {
        self.scenarios
            .iter()
            .filter(|scenario| !scenario.answer.is_empty())
            .count()
    }

    fn machines(&self) -> String {
        let machines: BTreeSet<String> = self
            .bases
            .values()
            .flat_map(|basis| basis.machines.iter().cloned())
            .collect();
        machines_in_words(&machines.into_iter().collect::<Vec<_>>())
    }

    /// How many claims have which verdict, with a link to their page.
    fn verdicts(&self, page: &str) -> String {
        let words: Vec<&str> = self
            .claims
            .iter()
            .flat_map(|(_, claims)| claims)
            .map(Weighed::word)
            .collect();
        let [confirmed, refuted, qualified] = ["confirmed", "refuted", "qualified"]
            .map(|word| words.iter().filter(|other| **other == word).count());
        format!(
            "Of {} claims in {} articles, {confirmed} are confirmed, {refuted} refuted, and {qualified} right only \
             under a condition ([{page}]({page})).",
            words.len(),
            self.claims.len(),
        )
    }

    fn answers(&self) -> String {
        let instances = self
            .scenarios
            .iter()
            .filter_map(|scenario| scenario.instances.first());
        let cases: usize = instances.map(|instance| instance.cases.len()).sum();
        format!(
            "{} scenarios with {cases} cases; {} of them have an answer so far. They were measured on {}. {} of the \
             answers rest on three attempts or more in one run, {} on a single attempt, and {} on nothing but runs \
             that were interrupted. Each page says which, and [provenance.md](provenance.md) where each report comes \
             from.",
            self.scenarios.len(),
            self.answered(),
            self.machines(),
            self.bases.values().filter(|basis| basis.most >= 3).count(),
            self.bases
                .values()
                .filter(|basis| basis.is_single())
                .count(),
            self.bases
                .values()
                .filter(|basis| basis.is_of_interrupted_runs())
                .count(),
        )
    }
}

/// A text in which the part between two comments is replaced.
pub(crate) fn between(text: &str, name: &str, made: &str) -> Result<String, TaskError> {
    let (from, to) = (format!("<!-- made: {name} -->\n"), "\n<!-- end -->");
    let missing = || {
        format!(
            "the page has no `{}` with a `{}` behind it",
            from.trim_end(),
            to.trim_start()
        )
    };
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
        let basis = |least, runs, interrupted| Basis {
            least,
            most: least,
            runs,
            interrupted,
            ..Basis::default()
        };
        let bases = [
            ("a", basis(5, 2, 0)),
            ("b", basis(1, 1, 1)),
            ("c", basis(2, 2, 2)),
            ("d", basis(1, 2, 0)),
        ];
        let bases: BTreeMap<String, Basis> = bases
            .into_iter()
            .map(|(name, basis)| (name.to_owned(), basis))
            .collect();
        let counted = Counted {
            scenarios: &[],
            bases: &bases,
            claims: &Vec::new(),
        };
        let page =
            "<!-- made: answers -->\n\n<!-- end -->\n<!-- made: claims -->\n\n<!-- end -->\n";
        let said = counted.in_results(page).unwrap();
        for part in [
            "1 of the answers rest on three",
            "1 on a single attempt",
            "and 2 on nothing but runs",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
}
