//! Reading a rule: strict, every error of the file at once, each at its place.

use serde_json::Value;

use super::Severity;
use super::clue::{Attribute, ClueKind, KINDS, Part, Type, parts};
use super::rule::{ANY, DiagnosisRule, RuleCondition, WorkaroundRun, is_function};
use cuda_pitfalls_core::scenario::framework::frameworks;
use cuda_pitfalls_core::source::Diagnostic;
use cuda_pitfalls_core::source::diagnostic::suggest_name;
use cuda_pitfalls_core::source::reader::{Reader, get, opening_comment};
use cuda_pitfalls_core::source::tree::{Node, SourceSpan, TreeEntry};

const MOST_SOURCE_BYTES: usize = 64 << 10;
const KEYS: [&str; 10] = [
    "title",
    "severity",
    "scenario",
    "evidence",
    "when",
    "says",
    "instead_of",
    "leaves_open",
    "workaround",
    "shown",
];
/// The folder of programs that were traced.
const PROGRAMS: &str = "reports/traces/programs/";
/// The keys of `when` that are not attributes.
const NO_ATTRIBUTES: [&str; 3] = ["stack_has", "package", "workaround"];

/// Turns the text of a file into a rule, or into every error of the file, sorted by place.
///
/// `name` is the name of the rule, and `file` that of the file in messages. A test, not this function, checks that the
/// scenario and the report exist.
///
/// # Errors
/// What is wrong with the file.
pub fn load_rule(name: &str, file: &str, source: &str) -> Result<DiagnosisRule, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, source, &[]);
    let rule = read(&mut reader, name);
    reader.finish(rule)
}

fn read(reader: &mut Reader<'_>, name: &str) -> Option<DiagnosisRule> {
    let source = reader.source;
    let top = SourceSpan::at(0..0);
    let entries = reader.parse_top_level("a rule", MOST_SOURCE_BYTES)?;
    let owner = entries.first().map_or(top, |entry| entry.key.place.clone());
    let entries = entries.as_slice();
    reader.known_keys(entries, &KEYS);
    let why = opening_comment(source);
    if why.is_empty() {
        reader.error(
            &owner,
            "a rule begins with a comment that says what goes wrong, and why",
            None,
        );
    }
    let title = parse_required(reader, entries, "title", &owner);
    let severity = parse_required(reader, entries, "severity", &owner).and_then(|(_, node)| {
        let word = reader.word(node, "severity", &Severity::ALL.map(Severity::name))?;
        Severity::ALL
            .into_iter()
            .find(|severity| severity.name() == word)
    });
    let scenario = parse_required(reader, entries, "scenario", &owner);
    if let Some((_, node)) = scenario
        .as_ref()
        .filter(|(text, _)| text.matches('/').count() != 1)
    {
        reader.error(
            &node.place,
            "a scenario is named `<subject>/<what-happens>`",
            None,
        );
    }
    let evidence = parse_required(reader, entries, "evidence", &owner);
    if let Some((_, node)) = evidence
        .as_ref()
        .filter(|(text, _)| !text.starts_with("reports/"))
    {
        reader.error(&node.place, "evidence is a folder below `reports/`", None);
    }
    let says = parse_required(reader, entries, "says", &owner);
    let when = reader.required_value(entries, "when", &owner, "a rule");
    let when: Option<Vec<RuleCondition>> = when.and_then(|node| {
        reader
            .one_or_more(node)
            .iter()
            .map(|node| self::when(reader, node))
            .collect()
    });
    let workaround = reader.required_value(entries, "workaround", &owner, "a rule");
    let workaround = workaround.and_then(|node| parse_workarounds(reader, node));
    let instead_of = get(entries, "instead_of")
        .map(|node| words(reader, node))
        .unwrap_or_default();
    let leaves_open = get(entries, "leaves_open")
        .map(|node| words(reader, node))
        .unwrap_or_default();
    let keys: Vec<&str> = workaround
        .iter()
        .flatten()
        .map(|(key, _, _)| key.as_str())
        .collect();
    let shown = get(entries, "shown")
        .and_then(|node| shown(reader, node, &keys))
        .unwrap_or_default();
    let kinds: Vec<&'static ClueKind> = when.iter().flatten().map(|when| when.clue).collect();
    if let Some((text, node)) = &says {
        check_placeholders(reader, text, node, &kinds);
    }
    for (_, text, node) in workaround.iter().flatten() {
        check_placeholders(reader, text, node, &kinds);
    }
    Some(DiagnosisRule {
        name: name.to_owned(),
        title: title?.0,
        severity: severity?,
        why,
        scenario: scenario?.0,
        evidence: evidence?.0,
        when: when?,
        says: says?.0,
        instead_of,
        leaves_open,
        shown,
        workaround: workaround?
            .into_iter()
            .map(|(framework, text, _)| (framework, text))
            .collect(),
    })
}

/// A text that every rule has, and where it is.
fn parse_required<'n>(
    reader: &mut Reader<'_>,
    entries: &'n [TreeEntry],
    key: &str,
    owner: &SourceSpan,
) -> Option<(String, &'n Node)> {
    let node = reader.required_value(entries, key, owner, "a rule")?;
    reader.sentence(node).map(|text| (text, node))
}

fn when(reader: &mut Reader<'_>, node: &Node) -> Option<RuleCondition> {
    let entries = reader.table(node)?;
    let kind = reader.required_value(entries, "clue", &node.place, "`when`")?;
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let name = reader.word(kind, "kind of clue", &names)?;
    let clue = KINDS.iter().find(|kind| kind.name == name)?;
    let mut when = RuleCondition {
        clue,
        is: Vec::new(),
        stack_has: Vec::new(),
        package: Vec::new(),
        workaround: None,
    };
    for TreeEntry { key, value } in entries {
        match key.text.as_str() {
            "clue" => {}
            "stack_has" => when.stack_has = words(reader, value),
            "package" => when.package = words(reader, value),
            "workaround" => {
                when.workaround = reader.sentence(value);
                check_placeholders(
                    reader,
                    when.workaround.as_deref().unwrap_or_default(),
                    value,
                    &[clue],
                );
            }
            word => match clue.find_attribute(word) {
                Some(attribute) => {
                    let wanted: Vec<Value> = reader
                        .one_or_more(value)
                        .iter()
                        .filter_map(|value| self::value(reader, attribute, value))
                        .collect();
                    when.is.push((attribute.name, wanted));
                }
                None => {
                    let message = format!("a clue `{}` has no attribute `{word}`", clue.name);
                    reader.error(
                        &key.place,
                        message,
                        suggest_name(word, clue.names().chain(NO_ATTRIBUTES)),
                    );
                }
            },
        }
    }
    Some(when)
}

fn value(reader: &mut Reader<'_>, attribute: &Attribute, node: &Node) -> Option<Value> {
    match attribute.of {
        Type::Flag => reader.read_boolean(node).map(Value::from),
        Type::Count | Type::Duration => reader
            .read_integer(node, i64::MIN..=i64::MAX)
            .map(Value::from),
        Type::Bytes => reader.bytes(node).map(Value::from),
        Type::Text | Type::List => reader.sentence(node).map(Value::from),
    }
}

/// A list of texts, or one.
fn words(reader: &mut Reader<'_>, node: &Node) -> Vec<String> {
    reader
        .one_or_more(node)
        .iter()
        .filter_map(|node| reader.sentence(node))
        .collect()
}

fn parse_workarounds<'n>(
    reader: &mut Reader<'_>,
    node: &'n Node,
) -> Option<Vec<(String, String, &'n Node)>> {
    let entries = reader.table(node)?;
    let functions = entries
        .iter()
        .map(|entry| entry.key.text.as_str())
        .filter(|key| is_function(key));
    let names = frameworks().iter().map(|framework| framework.name.as_str());
    let known: Vec<&str> = [ANY].into_iter().chain(names).chain(functions).collect();
    reader.known_keys(entries, &known);
    reader.required_value(entries, ANY, &node.place, "`workaround`");
    let texts = entries.iter();
    Some(
        texts
            .filter_map(|it| Some((it.key.text.clone(), reader.sentence(&it.value)?, &it.value)))
            .collect(),
    )
}

/// Where each workaround was run: cases as `framework/cupy-with-device-3 control`, and traced programs.
fn shown(
    reader: &mut Reader<'_>,
    node: &Node,
    keys: &[&str],
) -> Option<Vec<(String, Vec<WorkaroundRun>)>> {
    let mut all = Vec::new();
    for TreeEntry { key, value } in reader.table_of(node, keys)? {
        let mut shown = Vec::new();
        for node in reader.one_or_more(value) {
            let Some(text) = reader.sentence(node) else {
                continue;
            };
            let program = text
                .strip_prefix(PROGRAMS)
                .and_then(|file| file.strip_suffix(".py"));
            match (program, text.split_once(' ')) {
                (Some(program), _) => shown.push(WorkaroundRun::Program(program.to_owned())),
                (None, Some((scenario, case))) if scenario.contains('/') => {
                    shown.push(WorkaroundRun::Case(scenario.to_owned(), case.to_owned()));
                }
                _ => {
                    let help = Some(format!(
                        "write `<subject>/<what-happens> <case>`, or `{PROGRAMS}<name>.py`"
                    ));
                    reader.error(
                        &node.place,
                        format!("`{text}` is no case of a scenario and no traced program"),
                        help,
                    );
                }
            }
        }
        all.push((key.text.clone(), shown));
    }
    Some(all)
}

/// Each name between braces must be an attribute of every kind of clue that the rule asks about.
fn check_placeholders(
    reader: &mut Reader<'_>,
    text: &str,
    node: &Node,
    kinds: &[&'static ClueKind],
) {
    let names = parts(text).into_iter().filter_map(|part| match part {
        Part::Placeholder(name) => Some(name),
        Part::Words(_) => None,
    });
    for name in names {
        for kind in kinds {
            match kind.find_attribute(name) {
                Some(attribute) if attribute.of == Type::Flag => {
                    reader.error(
                        &node.place,
                        format!("`{name}` is true or false, which says nothing here"),
                        None,
                    );
                }
                Some(_) => {}
                None => {
                    let message = format!("a clue `{}` has no attribute `{name}`", kind.name);
                    reader.error(&node.place, message, suggest_name(name, kind.names()));
                }
            }
        }
    }
    let braces = text.matches('{').count().max(text.matches('}').count());
    let found = parts(text)
        .iter()
        .filter(|part| matches!(part, Part::Placeholder(_)))
        .count();
    if braces != found {
        reader.error(
            &node.place,
            "a brace that does not enclose the name of an attribute",
            None,
        );
    }
}

#[cfg(test)]
mod tests;
