//! The page that the site begins with.

use std::fmt::Write as _;

use cuda_pitfalls::explain::{Word, word};
use cuda_pitfalls::scenario::symptom;

use super::matrix::CHANGES;
use super::{Draft, Sources, TITLE};
use crate::page::prose;

const OPENING: &str = "Which call initialises the CUDA driver, which one creates a context, where memory appears, and \
what an error at the start means. Every answer was measured on GPUs.

<p class=\"search-here\">Search for an error message, a call, a line of Python or a symptom: press <kbd>s</kbd> or \
<kbd>/</kbd>, or the magnifying glass above.</p>

";

/// The page.
pub(super) fn page(sources: &Sources, errors: &[Draft], releases: &[Draft]) -> Draft {
    let mut text = format!("# {TITLE}\n\n{OPENING}## What is known {{#known}}\n\n");
    let answered = sources.scenarios.iter().filter(|scenario| word(scenario) != Word::Unmeasured).count();
    let (lines, calls) = (sources.summary.lines.len(), sources.summary.calls.len());
    let all = sources.scenarios.len();
    let _ = writeln!(text, "- [Pitfalls by symptom](/pitfalls/index.md): {answered} of {all} questions have an answer");
    let pages = errors.len().saturating_sub(1);
    let _ =
        writeln!(text, "- [Errors and messages](/errors/index.md): {pages}, with their causes and what to do first");
    let _ = writeln!(text, "- [Lines of Python](/lines/index.md): {lines}, by framework");
    let _ = writeln!(text, "- [Calls](/calls/index.md): {calls}, by library");
    if !releases.is_empty() {
        let environments = sources.matrix.columns.iter().filter(|column| column.failed.is_none()).count();
        let _ = writeln!(
            text,
            "- [Lines by version](/releases/index.md): which line calls `cuInit` in which of {environments} \
             versions, and [what changed](/{CHANGES})"
        );
    }
    text.push_str("- [Surveys](/surveys/index.md): every mask, variable, file and system call that CUDA needs\n");
    text.push_str("- [Results on a page](/results.md), [findings](/findings.md), [claims](/claims.md) of articles\n");
    text.push_str("- [What was not measured](/limits.md)\n\n## By what you see {#symptoms}\n\n");
    let asked = |symptom: &&symptom::Symptom| sources.scenarios.iter().any(|it| it.symptoms.contains(&symptom.id));
    for symptom in symptom::all().iter().filter(asked) {
        let _ = writeln!(text, "- [{}](/pitfalls/index.md#{})", prose(&symptom.sentence), symptom.id);
    }
    text.push_str(
        "\n## On your own machine {#program}\n\n[The program](/program.md) asks the same questions of your machine, \
         finds the line in your own program ([trace](/trace.md)), and says why CUDA does not start \
         ([doctor](/doctor.md)). [All documents](/documentation.md) are here too.\n",
    );
    Draft { path: "index.md".into(), title: "Start".into(), text, ..Draft::default() }
}
