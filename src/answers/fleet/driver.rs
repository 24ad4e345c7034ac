//! A driver that differs. Machines with another driver are a group of their own, in which none of them differs, so that
//! they are held here against all machines with the same GPUs.

use std::collections::BTreeSet;

use super::change::{CaseChange, differing};
use super::document::{Difference, Fleet, Group, GroupOutcome, Question, Usual, What};
use cuda_pitfalls_core::fact::{Change, Fact, Token};
use cuda_pitfalls_core::text::counts::{grouped, tally};
use cuda_pitfalls_core::verdict::Kind;

/// Adds the driver as a question where machines with the same GPUs have several.
pub(super) fn compare(fleet: &mut Fleet) {
    let question = Question { name: "driver".to_owned(), question: String::new(), page: None, is_row: true };
    let at = fleet.questions.len();
    // A machine is in a group for each libcudart that it was asked on. It counts in the first.
    let mut counted = BTreeSet::new();
    let own = fleet.groups.iter().enumerate().map(|(group, Group { key, machines, .. })| {
        let own = machines.iter().filter(|machine| !key.driver.is_empty() && counted.insert(**machine));
        let version = Fact::Value("version".to_owned(), Token::Text(key.driver.clone()));
        let change = Change { step: 0, label: question.name.clone(), facts: vec![version] };
        let driver = CaseChange { case: String::new(), outcome: 1, change };
        (key.gpus.clone(), (group, driver, own.copied().collect::<Vec<_>>()))
    });
    for (_, groups) in grouped(own.filter(|(_, (.., machines))| !machines.is_empty())) {
        let drivers = tally(groups.iter().flat_map(|(_, driver, all)| all.iter().map(|_| driver.clone())));
        let usual = drivers.iter().max_by_key(|(_, count)| *count).filter(|_| drivers.len() > 1);
        let Some((usual, usual_machines)) = usual.cloned() else { continue };
        for (group, driver, machines) in groups {
            let facts = differing(std::slice::from_ref(&usual), std::slice::from_ref(&driver));
            let outcome = GroupOutcome { kind: Kind::Reproduced, facts: vec![driver], machines: machines.len() };
            let shown = Usual { question: at, outcomes: vec![outcome], ..Usual::default() };
            fleet.groups[group].usual.push(shown);
            if !facts.is_empty() {
                let what = What::Outcome { outcome: 0, verdict_differs: false, facts };
                fleet.differences.push(Difference { group, question: at, machines, usual_machines, what });
            }
        }
    }
    fleet.questions.extend(Some(question).filter(|_| fleet.differences.iter().any(|one| one.question == at)));
}
