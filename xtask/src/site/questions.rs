//! The questions: what the site adds to their pages, and an index for each subject.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cuda_pitfalls::explain::word;
use cuda_pitfalls::scenario::{Scenario, subject};

use super::{Draft, Sources, write};
use crate::page::prose;

/// The messages that people paste, at the end of the page of the question that answers them.
pub(super) fn messages(path: &str, scenarios: &[Scenario]) -> String {
    let own = scenarios.iter().find(|scenario| crate::page::path(scenario) == path && !scenario.says.is_empty());
    let Some(scenario) = own else { return String::new() };
    let mut out = "\n## Messages that it answers {#messages}\n".to_owned();
    write::block(&mut out, "text", &scenario.says.join("\n"));
    out
}

/// A page for each subject.
pub(super) fn subjects(sources: &Sources, rests: &BTreeMap<String, BTreeSet<String>>) -> Vec<Draft> {
    let of = |subject: &subject::Subject| {
        let own = sources.scenarios.iter().filter(|scenario| subject::folder_of(&scenario.name) == subject.folder);
        let mut text = format!("# {}\n\n{}.\n\n", write::plain(&subject.folder), prose(&subject.sentence));
        let mut evidence = BTreeSet::new();
        for scenario in own {
            let question = prose(&scenario.question);
            let _ = writeln!(text, "- **{}** [{question}](/pitfalls/{}.md)", word(scenario).name(), scenario.name);
            evidence.extend(rests.get(&scenario.name).into_iter().flatten().cloned());
        }
        Draft {
            path: format!("pitfalls/{}/index.md", subject.folder),
            title: subject.folder.clone(),
            text,
            rests: evidence,
            ..Draft::default()
        }
    };
    subject::all().iter().map(of).collect()
}
