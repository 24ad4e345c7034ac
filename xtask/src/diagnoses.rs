//! The rules of `trace` as a page: what each rule finds, how, and what to write instead.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cuda_pitfalls::diagnosis::clue::{Attribute, clue_kinds, common_attributes};
use cuda_pitfalls::diagnosis::{
    ANY, DiagnosisRule, Finding, RuleCondition, WorkaroundRun, embedded_rules,
};
use cuda_pitfalls::text::escape::escape_markdown;
use cuda_pitfalls::trace::Trace;

use crate::TaskError;
use crate::page::Measurement;
use crate::table::MarkdownTable;
use crate::tables::replace_part;

/// The page of rules, below the root of the repository.
pub const PAGE: &str = "docs/diagnoses.md";

/// The sentence about a rule that finds nothing in any committed trace of a real program.
pub const NEVER_FOUND: &str = "Not found in any committed trace of a real program, only in tests.";
/// The words for a workaround that was not run.
pub const NOT_RUN: &str = "not run";

/// A committed trace of a real program, and the findings of today's rules in it.
pub struct TracedRun {
    /// The trace's folder below `reports/traces`, such as `h200-x2/torch_fork`.
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

    /// Returns the traced program, which gives the directory its name.
    fn program(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    fn folder_link(&self) -> String {
        format!("[`{0}`](../reports/traces/{0})", self.name)
    }
}

/// Returns the page with today's rules, clues and findings.
///
/// # Errors
/// Returns an error if the page has no section for them.
pub fn page(
    text: &str,
    traces: &[TracedRun],
    measured: &[Measurement],
) -> Result<String, TaskError> {
    let mut table = MarkdownTable::new(["rule", "finding", "kind", "committed traces"]);
    let mut sections = String::new();
    for rule in embedded_rules() {
        let found = traces.iter().filter(|trace| trace.has(rule)).count();
        table.row([
            rule_link(&rule.name),
            escape_markdown(&rule.title),
            rule.severity.name().to_owned(),
            found.to_string(),
        ]);
        sections += &rule_section(rule, traces, measured);
    }
    let mut clues = format!(
        "\n### Every clue\n{}",
        attributes_table(common_attributes())
    );
    for kind in clue_kinds() {
        let _ = write!(
            clues,
            "\n### `{}`\n\nOne clue for each {}.\n{}",
            kind.name,
            kind.about,
            attributes_table(&kind.attributes)
        );
    }
    let with_rules = replace_part(text, "rules", &(table.to_text() + &sections))?;
    replace_part(&with_rules, "clues", &clues)
}

fn rule_link(rule: &str) -> String {
    format!("[`{rule}`](#{rule})")
}

fn rule_section(rule: &DiagnosisRule, traces: &[TracedRun], measured: &[Measurement]) -> String {
    let conditions: Vec<String> = rule.when.iter().map(when).collect();
    let mut text = format!(
        "\n## {}\n\n**{}** ({})\n\n{}\n\nReported if {}.\n\nMessage: {}.\n",
        rule.name,
        escape_markdown(&rule.title),
        rule.severity.name(),
        rule.why,
        conditions.join("; or "),
        escape_markdown(&rule.says)
    );
    if !rule.instead_of.is_empty() {
        let rules = rule_links(&rule.instead_of);
        let _ = write!(text, "\nIt replaces {rules} for the same events.\n");
    }
    if !rule.leaves_open.is_empty() {
        let rules = rule_links(&rule.leaves_open);
        let _ = write!(text, "\nIf it is reported, {rules} is undecided.\n");
    }
    let mut found = Vec::new();
    for trace in traces {
        if trace.has(rule) {
            found.push(trace.folder_link());
        }
    }
    if found.is_empty() {
        let _ = write!(text, "\n{NEVER_FOUND}\n");
    } else {
        let _ = write!(text, "\nFound in {}.\n", found.join(", "));
    }
    text += &workarounds_table(rule, traces, measured);
    let (scenario, evidence) = (&rule.scenario, &rule.evidence);
    let _ = write!(
        text,
        "\nEvidence: [`{scenario}`](pitfalls/{scenario}.md), measured in [`{evidence}`](../{evidence}).\n"
    );
    text
}

fn rule_links(rules: &[String]) -> String {
    let links: Vec<String> = rules.iter().map(|rule| rule_link(rule)).collect();
    links.join(", ")
}

/// Returns the table of workarounds: the code to write in each framework, and where it was run.
fn workarounds_table(
    rule: &DiagnosisRule,
    traces: &[TracedRun],
    measured: &[Measurement],
) -> String {
    let mut table = MarkdownTable::new(["in", "write", "run"]);
    for (framework, workaround) in &rule.workaround {
        let mut run = runs(rule, framework, traces, measured).join("; ");
        if run.is_empty() {
            run = NOT_RUN.to_owned();
        }
        let place = if framework == ANY {
            "any program".to_owned()
        } else {
            format!("`{framework}`")
        };
        table.row([place, escape_markdown(workaround), run]);
    }
    for condition in &rule.when {
        if let Some(workaround) = &condition.workaround {
            let place = format!("any program, if {}", when(condition));
            table.row([place, escape_markdown(workaround), NOT_RUN.to_owned()]);
        }
    }
    table.to_text()
}

/// Returns the committed reports and traces where a workaround was run; empty if it was not.
fn runs(
    rule: &DiagnosisRule,
    framework: &str,
    traces: &[TracedRun],
    measured: &[Measurement],
) -> Vec<String> {
    let mut runs = Vec::new();
    for shown in rule.shown(framework) {
        match shown {
            WorkaroundRun::Case(scenario, case) => {
                if let Some(last) = reports(measured, scenario, case).last() {
                    runs.push(format!(
                        "case `{case}` of [`{scenario}`](pitfalls/{scenario}.md) ([`{last}`](../reports/{last}))"
                    ));
                }
            }
            WorkaroundRun::Program(program) => {
                let mut without = Vec::new();
                for trace in traces {
                    if trace.program() == program && !trace.has(rule) {
                        without.push(trace.folder_link());
                    }
                }
                if !without.is_empty() {
                    runs.push(format!("traced: {}", without.join(", ")));
                }
            }
        }
    }
    runs
}

/// Returns the committed reports with attempts of a case that count, and a conclusive verdict on its scenario.
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
    match asked.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} and {last}", others.join(", "))
        }
        _ => asked.concat(),
    }
}

fn join_with_or(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(" or ")
}

fn attributes_table(all: &[Attribute]) -> String {
    let mut table = MarkdownTable::new(["attribute", "type", "value"]);
    for attribute in all {
        let name = format!("`{}`", attribute.name);
        table.row([
            name,
            attribute.of.name().to_owned(),
            attribute.about.to_owned(),
        ]);
    }
    table.to_text()
}
