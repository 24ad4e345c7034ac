//! Names: what was typed is the name of something that is known, in one of the usual spellings.

use std::collections::BTreeSet;

use super::query::Query;
use crate::known::{Known, KnownEntry, KnownKind};
use cuda_pitfalls_core::scenario::environment::meant_by;

/// The most entries that fit above an answer.
const MOST_BESIDE: usize = 2;

/// The entries that a line as a whole is the name of, the one that is meant first. A name in its own capitals is meant
/// rather than one in others.
pub(super) fn whole<'k>(line: &str, known: &'k Known) -> Vec<&'k KnownEntry> {
    let spellings = spellings(line);
    let same = [<str as PartialEq>::eq, str::eq_ignore_ascii_case].into_iter();
    let named = same.flat_map(|is_same| spellings.iter().map(move |name| known.named(name, is_same)));
    named.map(Iterator::collect::<Vec<_>>).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The names that a text may mean: as it was typed, without arguments, as what an import brings, with and without
/// `torch.`, and the variable that is set or misspelt.
fn spellings(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole = words.join(" ");
    let text = ["python -c ", "python3 -c "].iter().find_map(|start| whole.strip_prefix(start)).unwrap_or(&whole);
    let text = text.trim_matches(|letter| "`'\"?;".contains(letter)).trim_end_matches(".toml");
    let mut found = vec![whole.clone(), text.to_owned()];
    found.extend(text.strip_suffix(')').and_then(|call| call.split_once('(')).map(|(name, _)| name.to_owned()));
    found.extend(text.strip_prefix("symptom/").map(str::to_owned));
    // `cuda-pitfalls doctor --pid 1` and `doctor --pid` are about `doctor`.
    found.extend(match words.as_slice() {
        ["cuda-pitfalls", command, ..] => Some(format!("cuda-pitfalls {command}")),
        [command, option, ..] if option.starts_with("--") => Some(format!("cuda-pitfalls {command}")),
        _ => None,
    });
    let (line, _) = text.split_once(" as ").unwrap_or((text, ""));
    match line.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) {
        Some((module, name)) => found.extend([format!("{module}.{name}"), format!("import {module}.{name}")]),
        None => found.push(line.to_owned()),
    }
    for index in 0..found.len() {
        let Some(name) = found.get(index).cloned() else { continue };
        found.push(format!("torch.{name}"));
        found.extend(name.strip_prefix("torch.").map(str::to_owned));
        found.extend((!name.contains(' ')).then(|| format!("import {name}")));
    }
    let (variable, value) = text.trim_start_matches("export ").split_once('=').unwrap_or((text, ""));
    let variable = variable.trim_start_matches(|letter| "${".contains(letter)).trim_end_matches('}');
    // A sentence may begin with a variable that is set.
    if variable.contains('_')
        && variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !value.contains(' ')
    {
        found.push(variable.to_owned());
        found.extend(meant_by(&variable.to_uppercase()).map(str::to_owned));
    }
    found
}

/// The variables, lines and calls that a text has among other words: what is known of them may help, and is no answer.
pub(super) fn within<'k>(query: &Query, known: &'k Known) -> Vec<&'k KnownEntry> {
    let terms = query.terms.iter().filter(|term| term.is_name);
    let mut names: BTreeSet<String> = terms.map(|term| term.text.clone()).collect();
    let words: Vec<&str> =
        query.said.split_whitespace().map(|word| word.trim_matches(['`', '\'', '"', ',', ';', ':'])).collect();
    names.extend(words.windows(2).filter(|pair| pair.first() == Some(&"import")).map(|pair| pair.join(" ")));
    let imports = words.windows(4).filter(|four| four.first() == Some(&"from") && four.get(2) == Some(&"import"));
    names.extend(imports.map(|four| four.join(" ")));
    let kinds: &[KnownKind] = match query.is_pasted {
        // A traceback names a dozen calls that are in order.
        true => &[KnownKind::Variable, KnownKind::Line],
        false => &[KnownKind::Variable, KnownKind::Line, KnownKind::Call],
    };
    let of_kinds = known.entries.iter().filter(|entry| kinds.contains(&entry.kind));
    let mut found: Vec<&KnownEntry> =
        of_kinds.filter(|entry| entry.names.iter().any(|name| names.contains(&name.to_lowercase()))).collect();
    found.sort_by_key(|entry| kinds.iter().position(|kind| *kind == entry.kind));
    found.truncate(MOST_BESIDE);
    found
}
