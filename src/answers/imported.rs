//! The results of `survey imports` about an import that initialized CUDA in a traced program.

use crate::known::{IMPORTED, Known};
use cuda_pitfalls_trace::Stack;

/// Returns the measured results of the import during which a call of `cuInit` with this stack was made, in sentences: of
/// the user's line, and if that does not call it, of the package that it imports or of the one that made the call.
/// `None` if none was measured.
pub fn known_import(known: &Known, stack: &Stack) -> Option<String> {
    let caller = stack.import_frame()?;
    let mut lines = import_lines(stack.source.as_deref().unwrap_or_default());
    let is_single = lines.len() == 1;
    for frame in stack.entry().into_iter().chain([caller]) {
        let package = frame.package.iter();
        lines.extend(package.map(|package| format!("import {package}")));
    }
    let mut told = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some(results) = find_results(known, line) else {
            continue;
        };
        if results.contains("calls cuInit") {
            told.push(results);
            break;
        }
        // That another line does not call it says nothing about this call. If the user's line does not, another release
        // or another package is the reason.
        if is_single && number == 0 && results.contains("not call cuInit") {
            told.push(results);
        }
    }
    if told.is_empty() {
        return None;
    }
    told.push("See docs/imports.md.");
    Some(told.join(" "))
}

/// Returns the imports of a line of Python, each as its own statement: `from a import b, c` has two. Empty if the line
/// imports several modules or does more than import.
fn import_lines(source: &str) -> Vec<String> {
    let code = source.split('#').next().unwrap_or_default();
    let words: Vec<&str> = code.split_whitespace().collect();
    let code = words.join(" ");
    let Some((start, names)) = code.split_once("import ") else {
        return Vec::new();
    };
    if names.contains(';') || (start.is_empty() && names.contains(',')) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for name in names.trim_matches(['(', ')']).split(',') {
        let name = name.split(" as ").next().unwrap_or_default().trim();
        lines.push(format!("{start}import {name}"));
    }
    lines
}

/// Returns what was measured of a line, in a sentence.
fn find_results<'k>(known: &'k Known, line: &str) -> Option<&'k str> {
    let sentence = &known.entry(&format!("line/{line}"))?.sentence;
    sentence.get(sentence.find(IMPORTED)?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::{KnownEntry, KnownKind};
    use cuda_pitfalls_trace::Frame;

    fn known() -> Known {
        let mut known = Known::default();
        for (line, results) in [
            ("import deep", "does not call cuInit in deep 2.0"),
            ("from deep import Trainer", "calls cuInit in deep 2.0"),
            ("import culprit", "calls cuInit in culprit 1.0"),
            ("import broken", "fails first in broken 1.0"),
        ] {
            known.entries.push(KnownEntry {
                id: format!("line/{line}"),
                kind: KnownKind::Line,
                names: vec![line.to_owned()],
                sentence: format!("Other words. {IMPORTED} {line} {results} (2026-11-29)."),
                page: String::new(),
                rests_on: String::new(),
                scenarios: Vec::new(),
            });
        }
        known
    }

    /// Returns the answer for a line of the user that imports these packages, one in another.
    fn answer(source: &str, packages: &[&str]) -> Option<String> {
        let mut stack = Stack {
            source: Some(source.to_owned()),
            ..Stack::default()
        };
        let library = "/l/site-packages/torch/cuda/__init__.py";
        stack.frames.push(Frame::python("is_available", library, 3));
        for package in packages.iter().rev() {
            let file = format!("/l/site-packages/{package}/__init__.py");
            stack.frames.push(Frame::python("<module>", &file, 1));
        }
        stack.frames.push(Frame::python("<module>", "train.py", 1));
        known_import(&known(), &stack)
    }

    #[test]
    fn users_line_then_its_package_then_the_caller_answers() {
        let deep = format!("{IMPORTED} import deep does not call cuInit in deep 2.0 (2026-11-29).");
        let trainer =
            format!("{IMPORTED} from deep import Trainer calls cuInit in deep 2.0 (2026-11-29).");
        let culprit =
            format!("{IMPORTED} import culprit calls cuInit in culprit 1.0 (2026-11-29).");
        let both = format!("{deep} {culprit}");
        for (source, packages, results) in [
            ("import  deep as d  # late", &["deep", "culprit"][..], &both),
            ("import deep", &["deep", "other"], &deep),
            ("from deep import Model, Trainer as T", &["deep"], &trainer),
            ("from deep import (Trainer)", &["deep", "culprit"], &trainer),
            // These lines were not measured, and `import deep` does not do it.
            ("import deep.lazy", &["deep", "culprit"], &culprit),
            ("import os; import deep", &["deep", "culprit"], &culprit),
            ("deep.load()", &["deep", "culprit"], &culprit),
            ("", &["culprit"], &culprit),
        ] {
            let wanted = format!("{results} See docs/imports.md.");
            assert_eq!(answer(source, packages), Some(wanted), "{source}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        for (source, packages) in [
            ("import other", &["other"][..]),
            ("import deep.lazy", &["deep"]),
            ("import other, culprit", &["other"]),
            ("import broken", &["broken"]),
            ("import culprit", &[]),
        ] {
            assert_eq!(answer(source, packages), None, "{source}");
        }
    }
}
