//! Look-up of a query that is the name of a known thing, in one of the usual spellings.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use super::query::Query;
use crate::known::{Known, KnownEntry, KnownKind};
use crate::survey::python::{PythonLine, built_in};
use cuda_pitfalls_core::scenario::environment::meant_by;

/// Maximum number of entries above an answer.
const MOST_BESIDE: usize = 2;

/// The measured lines, those without a variable first. Empty if the list is not valid; a test rules that out.
static LINES: LazyLock<Vec<PythonLine>> = LazyLock::new(|| {
    let mut lines = built_in().map(|list| list.lines).unwrap_or_default();
    lines.sort_by_key(|line| line.env.len());
    lines
});

/// Returns the measured code of a line, by the id of its entry.
pub fn measured_code(id: &str) -> Option<&'static str> {
    let name = id.strip_prefix("line/")?;
    LINES
        .iter()
        .find(|line| line.id == name)
        .map(|line| line.ask.as_str())
}

/// Returns the entries whose name is the complete text, the best match first. Names with the same capitals take
/// precedence, and code matches a measured line only if both are equal.
pub(super) fn find_named<'k>(text: &str, known: &'k Known) -> Vec<&'k KnownEntry> {
    let statement = statement_in(text);
    if let Some(entry) =
        line_with_code(statement).and_then(|line| known.entry(&format!("line/{}", line.id)))
    {
        return vec![entry];
    }
    let spellings = possible_names(text, statement);
    let same = [<str as PartialEq>::eq, str::eq_ignore_ascii_case].into_iter();
    let named =
        same.flat_map(|is_same| spellings.iter().map(move |name| known.named(name, is_same)));
    let mut found = named
        .map(Iterator::collect::<Vec<_>>)
        .find(|found| !found.is_empty())
        .unwrap_or_default();
    if found.is_empty()
        && let Some(function) = statement.strip_suffix("()")
    {
        // In C a function is often written like this without a call in mind; in Python that is a call without
        // arguments.
        found.extend(known.named(function, str::eq_ignore_ascii_case));
        found.retain(|entry| !matches!(entry.kind, KnownKind::Line | KnownKind::Command));
    }
    found
}

/// Returns the entries about the function that a text calls with other arguments, or whose result it uses. Their
/// measurements do not necessarily apply to the text.
pub(super) fn find_function<'k>(text: &str, known: &'k Known) -> Vec<&'k KnownEntry> {
    let statement = statement_in(text);
    let Some(function) = called_function(statement) else {
        return Vec::new();
    };
    let mut lines: Vec<(bool, usize, &str)> = Vec::new();
    for line in LINES.iter() {
        let is_named = line
            .id
            .split([',', '('])
            .next()
            .is_some_and(|name| is_function(name, function));
        if is_named || called_function(&line.ask).is_some_and(|name| is_function(name, function)) {
            let distance = strsim::osa_distance(&strip_blanks(&line.ask), &strip_blanks(statement));
            lines.push((!is_named, distance, &line.id));
        }
    }
    lines.sort_unstable();
    let lines = lines
        .into_iter()
        .filter_map(|(_, _, id)| known.entry(&format!("line/{id}")));
    let calls = known
        .named(function, <str as PartialEq>::eq)
        .filter(|entry| entry.kind == KnownKind::Call);
    lines.chain(calls).take(MOST_BESIDE).collect()
}

/// Returns `true` if a measured function is the called one. `len` and `list` are Python's own functions and never
/// match.
fn is_function(measured: &str, called: &str) -> bool {
    let is_of_package = called.contains(['.', '_']) || called.contains(char::is_uppercase);
    is_of_package && (measured == called || measured.strip_prefix("torch.") == Some(called))
}

/// Returns `true` if a text looks like a module name.
fn is_module_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
}

/// Returns the name that an import imports, without its alias.
fn imported_name(part: &str) -> String {
    part.split(" as ")
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the statement in a text that is a single import, and the modules that it names, each before its package.
pub(super) fn find_import(text: &str) -> Option<(&str, Vec<String>)> {
    let statement = statement_in(text);
    let named: Vec<String> = match statement
        .strip_prefix("from ")
        .and_then(|rest| rest.split_once(" import "))
    {
        Some((module, names)) => names
            .trim_matches(['(', ')'])
            .split(',')
            .map(|name| {
                format!("{}.{}", module.trim(), imported_name(name))
                    .trim_end_matches(".*")
                    .to_owned()
            })
            .collect(),
        None => statement
            .strip_prefix("import ")?
            .split(',')
            .map(imported_name)
            .collect(),
    };
    if !named.iter().all(|name| is_module_name(name)) {
        return None;
    }
    let mut modules = Vec::new();
    for name in named {
        let mut module = Some(name.as_str());
        while let Some(part) = module {
            if !modules.iter().any(|known| known == part) {
                modules.push(part.to_owned());
            }
            module = part.rsplit_once('.').map(|(package, _)| package);
        }
    }
    Some((statement, modules))
}

/// Returns the statement in a query, without `python -c` and quotes.
fn statement_in(text: &str) -> &str {
    let text = text.trim();
    let command = ["python -c ", "python3 -c "]
        .iter()
        .find_map(|start| text.strip_prefix(start))
        .unwrap_or(text);
    command
        .trim()
        .trim_matches(|letter| "`'\"?;".contains(letter))
}

/// Returns the measured line with this code: alone, after its variables, or after the lines that run before it.
fn line_with_code(statement: &str) -> Option<&'static PythonLine> {
    CODES.get(&strip_blanks(statement)).copied()
}

/// The measured lines by the codes that mean them. If two lines have the same code, the first is used.
static CODES: LazyLock<HashMap<String, &'static PythonLine>> = LazyLock::new(|| {
    let mut codes = HashMap::new();
    for line in LINES.iter() {
        let set = line
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let set = strip_blanks(&set.collect::<String>());
        let ask = strip_blanks(&line.ask);
        let whole = strip_blanks(&line.before.concat()) + &ask;
        for code in [set.clone() + &ask, set + &whole, ask, whole] {
            codes.entry(code).or_insert(line);
        }
    }
    codes
});

/// Returns code without spaces and line breaks, and with uniform quotes.
fn strip_blanks(code: &str) -> String {
    code.replace('"', "'")
        .chars()
        .filter(|letter| !letter.is_whitespace() && *letter != ';')
        .collect()
}

/// Returns the function that a statement calls first, if the statement consists of that call and of calls on its
/// result.
fn called_function(statement: &str) -> Option<&str> {
    let (assigned, call) = statement.split_once(" = ").unwrap_or(("", statement));
    let call = if assigned.contains('(') {
        statement
    } else {
        call
    };
    let call = call.strip_prefix("with ").unwrap_or(call);
    let (function, _) = call.split_once('(')?;
    let is_path = function
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
    let mut depth = 0_u32;
    let mut rest = call
        .char_indices()
        .skip_while(|(_, letter)| *letter != '(')
        .find_map(|(index, letter)| {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            (depth == 0).then(|| call.get(index + 1..).unwrap_or_default().trim_start())
        })?;
    rest = rest.trim_end_matches(':');
    (is_path && !function.is_empty() && (rest.is_empty() || rest.starts_with(['.', '[', ';'])))
        .then_some(function)
}

/// Returns the names that a text may stand for: the text itself, the names it imports, with and without `torch.`, and
/// the variable that it sets or misspells.
fn possible_names(text: &str, statement: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole = words.join(" ");
    let text = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.trim_end_matches(".toml");
    let mut found = vec![whole.clone(), text.to_owned()];
    found.extend(text.strip_prefix("symptom/").map(str::to_owned));
    // `cuda-pitfalls who --stacks 1` and `who --stacks` are about `who`.
    found.extend(match words.as_slice() {
        ["cuda-pitfalls", command, ..] => Some(format!("cuda-pitfalls {command}")),
        [command, option, ..] if option.starts_with("--") => {
            Some(format!("cuda-pitfalls {command}"))
        }
        _ => None,
    });
    let is_statement = !statement.contains(['\n', ';', '(']);
    let line = match text.split_once(" as ") {
        Some((line, _)) if is_statement => line,
        _ => text,
    };
    match line
        .strip_prefix("from ")
        .and_then(|rest| rest.split_once(" import "))
    {
        Some((module, name)) => found.extend([
            format!("{module}.{name}"),
            format!("import {module}.{name}"),
        ]),
        None => found.push(line.to_owned()),
    }
    for index in 0..found.len() {
        let Some(name) = found.get(index).cloned() else {
            continue;
        };
        found.push(format!("torch.{name}"));
        found.extend(name.strip_prefix("torch.").map(str::to_owned));
        found.extend((!name.contains(' ')).then(|| format!("import {name}")));
    }
    let (variable, value) = text
        .trim_start_matches("export ")
        .split_once('=')
        .unwrap_or((text, ""));
    let variable = variable
        .trim_start_matches(|letter| "${".contains(letter))
        .trim_end_matches('}');
    // A sentence may begin with a variable that is set.
    if variable.contains('_')
        && variable
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !value.contains(' ')
    {
        found.push(variable.to_owned());
        found.extend(meant_by(&variable.to_uppercase()).map(str::to_owned));
    }
    found
}

/// Returns the variables, lines and calls that a text contains among other words. Entries about them may help, but they
/// do not count as answers.
pub(super) fn find_names_within<'k>(query: &Query, known: &'k Known) -> Vec<&'k KnownEntry> {
    let terms = query.terms.iter().filter(|term| term.is_name);
    let mut names: BTreeSet<String> = terms.map(|term| term.text.clone()).collect();
    let words: Vec<&str> = query
        .said
        .split_whitespace()
        .map(|word| word.trim_matches(['`', '\'', '"', ',', ';', ':']))
        .collect();
    names.extend(
        words
            .windows(2)
            .filter(|pair| pair.first() == Some(&"import"))
            .map(|pair| pair.join(" ")),
    );
    let imports = words
        .windows(4)
        .filter(|four| four.first() == Some(&"from") && four.get(2) == Some(&"import"));
    names.extend(imports.map(|four| four.join(" ")));
    // Most calls in a traceback have nothing to do with the error.
    let kinds: &[KnownKind] = if query.is_pasted {
        &[KnownKind::Variable, KnownKind::Line]
    } else {
        &[KnownKind::Variable, KnownKind::Line, KnownKind::Call]
    };
    let of_kinds = known
        .entries
        .iter()
        .filter(|entry| kinds.contains(&entry.kind));
    let mut found: Vec<&KnownEntry> = of_kinds
        .filter(|entry| {
            entry
                .names
                .iter()
                .any(|name| names.contains(&name.to_lowercase()))
        })
        .collect();
    found.sort_by_key(|entry| kinds.iter().position(|kind| *kind == entry.kind));
    found.truncate(MOST_BESIDE);
    found
}
