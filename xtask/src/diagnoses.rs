//! The rules of `trace` as a page: what each rule finds, how, and what to write instead.

use std::collections::BTreeSet;
use std::fmt::Write;

use cuda_pitfalls::diagnosis::clue::{Attribute, clue_kinds, common_attributes};
use cuda_pitfalls::diagnosis::{
    ANY, DiagnosisRule, Finding, RuleCondition, WorkaroundRun, embedded_rules,
};
use cuda_pitfalls::text::escape::escape_markdown;
use cuda_pitfalls::trace::Trace;

use crate::page::Measurement;

const HEAD: &str = "# What `trace` finds

Generated from the rules in `scenarios/diagnoses/`; `cargo xtask bless` writes it anew.

`cuda-pitfalls trace -- COMMAND` compares what a program did with these rules. A *pitfall* is counted; a *note* is worth knowing and is not. The workaround is the one for the framework that the user's own line called, if the rule has one for it. Where two rules speak about the same event, the one that says more speaks alone. What a trace could not see is never taken for a yes.

A scenario is a minimal program that proves the pitfall on this machine (`cuda-pitfalls run NAME`); the evidence is a committed report of such a run. Each rule says in which committed traces of real programs (`reports/traces`) it finds something, and each workaround where it was run: as a case of a scenario, or as a program whose committed trace has no such finding.

| rule | what it finds | kind | committed traces |
| --- | --- | --- | --- |
";

/// The sentence about a rule that finds nothing in any committed trace of a real program.
pub const NEVER_FOUND: &str =
    "It was found in no committed trace of a real program, only in tests.";
/// The words for a workaround that was not run.
pub const NOT_RUN: &str = "not run";

const CLUES: &str = "
## What a rule can ask

A rule is a file `scenarios/diagnoses/<name>.toml`: a comment that says what goes wrong and why, then `title`, `severity` (`pitfall` or `note`), `scenario`, `evidence`, `when`, `says`, `workaround` (with `any` and a key for each framework), and `instead_of`, which names the rules that say less about the same events. `leaves_open` names the rules about whose pitfall nothing is known where this one finds something: `--forbid` does not decide them then. A key of `workaround` may be a function in quotes, such as `torch.cuda.is_available`: it stands before the framework's where the function is on the stack. `shown` says where each workaround was run: `scenario case`, or a program below `reports/traces/programs`. `when` is a list of tables of which one must hold: `clue` is one of the kinds below, and each attribute has the value that it must have, or a list of values of which it must have one. `stack_has` lists functions of which one must be on the stack, and `package` packages of which one must have made the call; `workaround` is what to write where this table holds, instead of the rule's own. In `says` and `workaround`, `{attribute}` stands for its value. An attribute that is not known has no value, and nothing that is asked of it holds.
";

/// A committed trace of a real program, and the findings of today's rules in it.
pub struct TracedRun {
    /// Its folder below `reports/traces`, such as `h200-x2/torch_fork`.
    pub name: String,
    /// The trace.
    pub trace: Trace,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl TracedRun {
    fn has(&self, rule: &DiagnosisRule) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.rule == rule.name)
    }

    /// The traced program, which gives the folder its name.
    fn program(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    fn folder_link(&self) -> String {
        format!("[`{0}`](../reports/traces/{0})", self.name)
    }
}

/// The page, in Markdown.
pub fn page(traces: &[TracedRun], measured: &[Measurement]) -> String {
    let mut text = HEAD.to_owned();
    for rule in embedded_rules() {
        let title = escape_markdown(&rule.title);
        let found = traces.iter().filter(|trace| trace.has(rule)).count();
        let _ = writeln!(
            text,
            "| [`{0}`](#{0}) | {title} | {1} | {found} |",
            rule.name,
            rule.severity.name()
        );
    }
    for rule in embedded_rules() {
        text.push_str(&rule_section(rule, traces, measured));
    }
    text.push_str(CLUES);
    let _ = write!(
        text,
        "\n### Every clue\n\n{}",
        attributes_table(common_attributes())
    );
    for kind in clue_kinds() {
        let _ = write!(
            text,
            "\n### `{}`\n\nThere is one for {}.\n\n{}",
            kind.name,
            kind.about,
            attributes_table(&kind.attributes)
        );
    }
    text
}

fn rule_section(rule: &DiagnosisRule, traces: &[TracedRun], measured: &[Measurement]) -> String {
    let mut text = format!(
        "\n## {}\n\n**{}** ({})\n\n{}\n",
        rule.name,
        escape_markdown(&rule.title),
        rule.severity.name(),
        rule.why
    );
    let conditions: Vec<String> = rule.when.iter().map(when).collect();
    let _ = write!(
        text,
        "\nIt is found where {}.\n\nIt says: {}.\n",
        conditions.join("; or "),
        escape_markdown(&rule.says)
    );
    if !rule.instead_of.is_empty() {
        let names: Vec<String> = rule
            .instead_of
            .iter()
            .map(|name| format!("[`{name}`](#{name})"))
            .collect();
        let _ = write!(
            text,
            "\nIt stands instead of {} about the same events.\n",
            names.join(", ")
        );
    }
    if !rule.leaves_open.is_empty() {
        let names: Vec<String> = rule
            .leaves_open
            .iter()
            .map(|name| format!("[`{name}`](#{name})"))
            .collect();
        let _ = write!(
            text,
            "\nWhere it is found, nothing is known about {}.\n",
            names.join(", ")
        );
    }
    let found: Vec<String> = traces
        .iter()
        .filter(|trace| trace.has(rule))
        .map(TracedRun::folder_link)
        .collect();
    let found = if found.is_empty() {
        NEVER_FOUND.to_owned()
    } else {
        format!("Found in {}.", found.join(", "))
    };
    let _ = write!(text, "\n{found}\n");
    text.push_str("\n| in | write | run |\n| --- | --- | --- |\n");
    for (framework, workaround) in &rule.workaround {
        let run = runs(rule, framework, traces, measured);
        let run = if run.is_empty() {
            NOT_RUN.to_owned()
        } else {
            run.join("; ")
        };
        let framework = if framework == ANY {
            "any program".to_owned()
        } else {
            format!("`{framework}`")
        };
        let _ = writeln!(
            text,
            "| {framework} | {} | {run} |",
            escape_markdown(workaround)
        );
    }
    for condition in &rule.when {
        let Some(workaround) = &condition.workaround else {
            continue;
        };
        let _ = writeln!(
            text,
            "| any program, where {} | {} | {NOT_RUN} |",
            when(condition),
            escape_markdown(workaround)
        );
    }
    let (scenario, evidence) = (&rule.scenario, &rule.evidence);
    let _ = write!(
        text,
        "\nProved by [`{scenario}`](pitfalls/{scenario}.md), measured in [`{evidence}`](../{evidence}).\n"
    );
    text
}

/// Where a workaround was run, according to committed reports and traces; empty if it was not.
fn runs(
    rule: &DiagnosisRule,
    framework: &str,
    traces: &[TracedRun],
    measured: &[Measurement],
) -> Vec<String> {
    let shown = rule.shown(framework).iter();
    shown
        .filter_map(|shown| match shown {
            WorkaroundRun::Case(scenario, case) => {
                let reports = reports(measured, scenario, case);
                let last = reports.last()?;
                let link = format!("case `{case}` of [`{scenario}`](pitfalls/{scenario}.md)");
                Some(format!("{link} ([`{last}`](../reports/{last}))"))
            }
            WorkaroundRun::Program(program) => {
                let without: Vec<String> = traces
                    .iter()
                    .filter(|trace| trace.program() == program && !trace.has(rule))
                    .map(TracedRun::folder_link)
                    .collect();
                (!without.is_empty()).then(|| format!("traced: {}", without.join(", ")))
            }
        })
        .collect()
}

/// The committed reports with attempts of a case that count, and a conclusive verdict on its scenario.
fn reports<'m>(measured: &'m [Measurement], scenario: &str, case: &str) -> BTreeSet<&'m str> {
    let mut reports = BTreeSet::new();
    for measurement in measured {
        let part = &measurement.part;
        if part.scenario != scenario || !part.verdict.kind.is_conclusive() {
            continue;
        }
        let mut cases = part.cases.iter();
        if cases.any(|found| found.name == case && !found.attempts.is_empty()) {
            reports.insert(measurement.report.as_str());
        }
    }
    reports
}

fn when(when: &RuleCondition) -> String {
    let mut asked = vec![format!("a clue [`{0}`](#{0}) was seen", when.clue.name)];
    for (name, wanted) in &when.is {
        let Some(attribute) = when.clue.find_attribute(name) else {
            continue;
        };
        let words: Vec<String> = RuleCondition::wanted_values(wanted)
            .iter()
            .map(|value| format!("`{}`", attribute.words(value)))
            .collect();
        asked.push(format!("`{name}` is {}", words.join(" or ")));
    }
    if !when.stack_has.is_empty() {
        asked.push(format!("{} is on the stack", join_with_or(&when.stack_has)));
    }
    if !when.package.is_empty() {
        asked.push(format!(
            "the call was made by {}",
            join_with_or(&when.package)
        ));
    }
    asked.join(", ")
}

fn join_with_or(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(" or ")
}

fn attributes_table(all: &[Attribute]) -> String {
    let mut text = "| attribute | type | what it says |\n| --- | --- | --- |\n".to_owned();
    for attribute in all {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            attribute.name,
            attribute.of.name(),
            attribute.about
        );
    }
    text
}
