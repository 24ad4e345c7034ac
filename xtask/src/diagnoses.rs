//! The rules of `trace` as a page: what each finds, how it is known, and what to write instead.

use std::fmt::Write;

use cuda_pitfalls::diagnosis::clue::{Attribute, COMMON, KINDS, Value};
use cuda_pitfalls::diagnosis::{ANY, Rule, When, rules};
use cuda_pitfalls::text::escape::markdown;
use cuda_pitfalls::text::units;

const HEAD: &str = "# What `trace` finds

Generated from the rules in `diagnoses/`; `cargo xtask bless` writes it anew.

`cuda-pitfalls trace -- COMMAND` compares what a program did with these rules. A *pitfall* is counted; a *note* is worth knowing and is not. The workaround is the one for the framework that the user's own line called, if the rule has one for it. Where two rules speak about the same event, the one that says more speaks alone. What a trace could not see is never taken for a yes.

A scenario is a minimal program that proves the pitfall on this machine (`cuda-pitfalls run NAME`); the evidence is a committed report of such a run.

| rule | what it finds | kind |
| --- | --- | --- |
";

const CLUES: &str = "
## What a rule can ask

A rule is a file `diagnoses/<name>.toml`: a comment that says what goes wrong and why, then `title`, `severity` (`pitfall` or `note`), `scenario`, `evidence`, `when`, `says`, `workaround` (with `any` and a key for each framework), and `instead_of`, which names the rules that say less about the same events. `when` is a table, or a list of tables of which one must hold: `clue` is one of the kinds below, and each attribute has the value that it must have, or a list of values of which it must have one. `stack_has` lists functions of which one must be on the stack, and `package` packages of which one must have made the call. In `says` and `workaround`, `{attribute}` stands for its value. An attribute that is not known has no value, and nothing that is asked of it holds. `cuda-pitfalls schema diagnosis` prints the format for editors.
";

/// The page, in Markdown.
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    for rule in rules() {
        let title = markdown(&rule.title);
        let _ = writeln!(text, "| [`{0}`](#{0}) | {title} | {1} |", rule.name, rule.severity.name());
    }
    for rule in rules() {
        text.push_str(&section(rule));
    }
    text.push_str(CLUES);
    let _ = write!(text, "\n### Every clue\n\n{}", attributes(COMMON));
    for kind in KINDS {
        let _ = write!(
            text,
            "\n### `{}`\n\nThere is one for {}.\n\n{}",
            kind.name,
            kind.about,
            attributes(kind.attributes)
        );
    }
    text
}

fn section(rule: &Rule) -> String {
    let mut text =
        format!("\n## {}\n\n**{}** ({})\n\n{}\n", rule.name, markdown(&rule.title), rule.severity.name(), rule.why);
    let when: Vec<String> = rule.when.iter().map(when).collect();
    let _ = write!(text, "\nIt is found where {}.\n\nIt says: {}.\n", when.join("; or "), markdown(&rule.says));
    if !rule.instead_of.is_empty() {
        let names: Vec<String> = rule.instead_of.iter().map(|name| format!("[`{name}`](#{name})")).collect();
        let _ = write!(text, "\nIt stands instead of {} about the same events.\n", names.join(", "));
    }
    text.push_str("\n| in | write |\n| --- | --- |\n");
    for (framework, workaround) in &rule.workaround {
        let framework = if framework == ANY { "any program".to_owned() } else { format!("`{framework}`") };
        let _ = writeln!(text, "| {framework} | {} |", markdown(workaround));
    }
    let (scenario, evidence) = (&rule.scenario, &rule.evidence);
    let _ = write!(
        text,
        "\nProved by [`{scenario}`](pitfalls/{scenario}.md), measured in [`{evidence}`](../{evidence}).\n"
    );
    text
}

/// What is asked, in words.
fn when(when: &When) -> String {
    let mut asked = vec![format!("a clue [`{0}`](#{0}) was seen", when.clue.name)];
    for (name, wanted) in &when.is {
        let bytes = when.clue.attribute(name).map(|attribute| attribute.of.name()) == Some("bytes");
        let word = |value: &Value| match value {
            Value::Number(number) if bytes => format!("`{}`", units::bytes(number.unsigned_abs())),
            Value::Number(number) => format!("`{number}`"),
            Value::Flag(flag) => format!("`{flag}`"),
            Value::Text(text) => format!("`{text}`"),
            Value::List(list) => format!("`{}`", list.join(", ")),
        };
        let words: Vec<String> = wanted.iter().map(word).collect();
        asked.push(format!("`{name}` is {}", words.join(" or ")));
    }
    let listed = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    if !when.stack_has.is_empty() {
        asked.push(format!("{} is on the stack", listed(&when.stack_has)));
    }
    if !when.package.is_empty() {
        asked.push(format!("the call was made by {}", listed(&when.package)));
    }
    asked.join(", ")
}

fn attributes(all: &[Attribute]) -> String {
    let mut text = "| attribute | type | what it says |\n| --- | --- | --- |\n".to_owned();
    for attribute in all {
        let _ = writeln!(text, "| `{}` | {} | {} |", attribute.name, attribute.of.name(), attribute.about);
    }
    text
}
