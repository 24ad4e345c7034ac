//! The results of `survey imports`: the imports that call `cuInit` first, then those that do so with other packages,
//! those that do not, and those without an answer.

use std::collections::BTreeMap;

use crate::Format;
use crate::block::Block;
use crate::releases::{clause, word};
use crate::survey::section::{Section, filtered_sections};
use crate::writer::terminal::{Screen, write};
use crate::writer::{html, markdown};
use cuda_pitfalls_answers::releases::{ImportRow, minor_version, version_order};
use cuda_pitfalls_core::text::counts::{counted, group_by_key};

const TITLE: &str = "Which import calls cuInit";

const OPENING: &str = "\
Each line ran in a fresh interpreter on a machine without a GPU, once without NVML and once with an NVML that reports two GPUs. `uv` installed the newest release of each package. After `cuInit`, which reads `CUDA_VISIBLE_DEVICES` once, setting this variable has no effect, and a forked child cannot use CUDA. Without a GPU, `cuInit` fails, so the tables show which import calls it, but not where a context would be created. To measure a package again, run `cuda-pitfalls survey imports PACKAGE`.

- **yes**, **no**: the import calls `cuInit`, or does not. **without NVML**, **with NVML**: the import calls it only on a machine without NVML, or only on one with NVML. NVIDIA's driver for x86-64 includes NVML.
- No answer: **fails first** (an exception ended the import before any `cuInit`), **absent** (the same, because something is missing, usually the module), **unknown** (the package could not be installed, or the import hung or crashed).
- **through**, **at**: the packages from the import to the call, and the last Python line or native function before `cuInit`.
- **NVML check**: \"helps\" if the import does not call `cuInit` while `PYTORCH_NVML_BASED_CUDA_CHECK=1` is set in the environment. PyTorch then counts GPUs with NVML.
- **also**: other effects of the import. If an import looks for a GPU's device file or library, its **no** is uncertain on other machines, because it was measured without a GPU.";

/// The second condition, where it was measured.
const TOGETHER: &str = "Many packages import another package only if it is installed. So each package ran with only what it needs. Some also ran (**with others**) next to optional packages that initialize CUDA when another package imports them (`scenarios/surveys/imports.toml` lists these). Empty cells were not measured.";

/// What else the answers depend on.
const ALONE: &str = "Many packages import another package only if it is installed. Each package ran with only what it needs, so a **no** is certain only for such an environment.";

/// What to write where an import calls `cuInit`.
const INSTEAD: &str = "Set CUDA_VISIBLE_DEVICES before Python starts, or in the first lines of the program, above these imports. Start workers before such an import, or with spawn. Since Python 3.13.8 and 3.14.1, a fork server imports the main script, so with forkserver, an import at the top of that script also breaks the workers. multiprocessing.set_forkserver_preload([]) prevents this. Where the NVML check helps, set PYTORCH_NVML_BASED_CUDA_CHECK=1 in the environment.";

/// The newest row of a line for each Python version and condition.
struct Line<'a> {
    line: &'a str,
    package: &'a str,
    cells: BTreeMap<String, &'a ImportRow>,
}

impl<'a> Line<'a> {
    fn lines(rows: &'a [ImportRow]) -> Vec<Line<'a>> {
        let mut lines: BTreeMap<(&str, &str), Line<'a>> = BTreeMap::new();
        for row in rows {
            let line = lines
                .entry((&row.package, &row.line))
                .or_insert_with(|| Line {
                    line: &row.line,
                    package: &row.package,
                    cells: BTreeMap::new(),
                });
            // The rows of a line are sorted by version, oldest first.
            line.cells.insert(column(row), row);
        }
        lines.into_values().collect()
    }

    fn alone(&self) -> impl Iterator<Item = &&'a ImportRow> {
        self.cells.values().filter(|row| !row.together)
    }

    fn calls_alone(&self) -> bool {
        self.alone().any(|row| row.state.calls())
    }

    fn calling(&self) -> Option<&ImportRow> {
        self.cells.values().find(|row| row.state.calls()).copied()
    }

    fn has_answer(&self) -> bool {
        self.cells.values().any(|row| row.state.is_known())
    }

    /// Returns the package with the newest release that was measured.
    fn release(&self) -> String {
        let versions = self.cells.values().map(|row| row.version.as_str());
        let newest = versions.max_by(|a, b| version_order(a, b));
        format!("{} {}", self.package, newest.unwrap_or_default())
    }
}

/// Returns the name of the column of a row: its Python, and the condition.
fn column(row: &ImportRow) -> String {
    let condition = if row.together { " with others" } else { "" };
    format!("Python {}{condition}", minor_version(&row.python))
}

/// Returns the tables, worst first.
fn sections(rows: &[ImportRow]) -> Vec<Section> {
    let mut columns: Vec<String> = rows.iter().map(column).collect();
    columns.sort();
    columns.dedup();
    let (mut alone, mut together, mut clean, mut open) = (vec![], vec![], vec![], vec![]);
    for line in Line::lines(rows) {
        let mut row = vec![line.line.to_owned(), line.release()];
        for column in &columns {
            let cell = line.cells.get(column);
            row.push(cell.map_or("", |row| word(row.state)).to_owned());
        }
        if let Some(call) = line.calling() {
            let cured = call.facts.cured_by.is_some();
            row.push(call.facts.through.join(" → "));
            row.push(call.facts.at.clone().unwrap_or_default());
            row.push(if cured { "helps" } else { "does not help" }.to_owned());
            if line.calls_alone() {
                &mut alone
            } else {
                &mut together
            }
            .push(row);
        } else if line.has_answer() {
            row.push(effects(&line));
            clean.push(row);
        } else {
            let why = line.cells.values().find_map(|row| row.facts.why.clone());
            row.push(why.unwrap_or_default());
            open.push(row);
        }
    }
    let section = |title: &str, last: &[&str], rows: Vec<Vec<String>>| {
        let mut header = vec!["line", "release"];
        header.extend(columns.iter().map(String::as_str));
        header.extend(last);
        Section::new(format!("{title} ({})", rows.len()), &header, rows, &[0])
    };
    let call = ["through", "at", "NVML check"];
    vec![
        Section {
            text: vec![INSTEAD.to_owned()],
            ..section("Calls cuInit", &call, alone)
        },
        section("Calls cuInit with other packages", &call, together),
        section("Does not call cuInit", &["also"], clean),
        section("No answer", &["reason"], open),
    ]
}

/// Returns what a line does in addition to `cuInit`, in words.
fn effects(line: &Line<'_>) -> String {
    let Some(row) = line.alone().find(|row| row.state.is_known()) else {
        return String::new();
    };
    let did = &row.facts.side_effects;
    let mut told = Vec::new();
    for name in &did.sets {
        told.push(format!("sets {name}"));
    }
    if did.looks {
        told.push("reads CUDA_VISIBLE_DEVICES".to_owned());
    }
    if did.nvml {
        told.push("loads NVML".to_owned());
    }
    if !did.children.is_empty() {
        told.push(format!("starts {}", did.children.join(", ")));
    }
    if did.threads > 0 {
        told.push(format!(
            "leaves {}",
            counted(did.threads as usize, "thread")
        ));
    }
    for name in &did.lacks {
        told.push(format!("looks for {name}, which may initialize CUDA"));
    }
    told.join("; ")
}

/// Returns a sentence about an import, for each release with another answer: `import x does not call cuInit in x 1.0`.
pub fn sentences(rows: &[&ImportRow]) -> Vec<String> {
    let mut told = Vec::new();
    let groups = group_by_key(rows.iter().map(|row| {
        let release = format!("{} {}", row.package, row.version);
        ((release, row.together, clause(row.state)), *row)
    }));
    for ((release, is_together, does), group) in groups {
        let mut pythons: Vec<&str> = group.iter().map(|row| minor_version(&row.python)).collect();
        pythons.dedup();
        let condition = if is_together {
            ", installed alongside packages that initialize CUDA"
        } else {
            ", installed with its requirements alone"
        };
        let mut sentence = format!(
            "{does} in {release} on Python {}{condition}",
            pythons.join(" and ")
        );
        if let Some(row) = group.first() {
            if let (true, Some(last)) = (row.state.calls(), row.facts.at.as_ref()) {
                sentence += ", ";
                if !row.facts.through.is_empty() {
                    sentence += &format!("through {} ", row.facts.through.join(" → "));
                }
                sentence += &format!("at {last}");
            }
            if row.facts.cured_by.is_some() {
                sentence += ", but not with PYTORCH_NVML_BASED_CUDA_CHECK=1";
            }
            sentence += &format!(" ({})", row.asked);
        }
        told.push(sentence);
    }
    told
}

/// Returns the rows as text: the imports that call `cuInit`; a longer list of others as a count.
pub fn text(rows: &[ImportRow], screen: impl Into<Screen>) -> String {
    let mut blocks = Vec::new();
    for (index, section) in sections(rows).into_iter().enumerate() {
        let lines = section.rows.len();
        if lines > 0 && (index < 2 || lines <= 20) {
            blocks.extend(section.blocks());
        } else {
            blocks.push(Block::paragraph(section.title));
        }
    }
    write(&blocks, screen)
}

/// Returns the rows as a Markdown page.
pub fn page(rows: &[ImportRow]) -> String {
    let mut blocks = vec![Block::heading(1, TITLE), Block::Prose(OPENING)];
    let has_together = rows.iter().any(|row| row.together);
    blocks.push(Block::Prose(if has_together { TOGETHER } else { ALONE }));
    for section in sections(rows) {
        blocks.extend(section.blocks());
    }
    markdown::write(&blocks)
}

/// Returns the rows in a format; `None` if they do not have it.
pub fn as_format(rows: &[ImportRow], format: Format, screen: impl Into<Screen>) -> Option<String> {
    match format {
        Format::Text => Some(text(rows, screen)),
        Format::Markdown => Some(page(rows)),
        Format::Html => {
            let mut blocks = vec![Block::heading(1, TITLE)];
            let about = ("Meaning of the cells", OPENING);
            blocks.extend(filtered_sections(
                "imports",
                "Imports",
                about,
                sections(rows),
            ));
            Some(html::sortable_page(TITLE, &blocks))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> ImportRow {
        let common = r#""line":"import a","package":"a","version":"1","python":"3.12.1","asked":"2026-11-29""#;
        serde_json::from_str(&format!("{{{common},{text}}}")).unwrap()
    }

    #[test]
    fn a_clean_import_is_said_to_be_alone_where_others_change_it() {
        let rows = [
            row(r#""state":"no""#),
            row(r#""state":"yes","together":true,"through":["a 1","b 2"],"at":"b/c.py:3 f""#),
        ];
        let told = sentences(&rows.iter().collect::<Vec<_>>());
        assert_eq!(
            told,
            [
                "does not call cuInit in a 1 on Python 3.12, installed with its requirements alone (2026-11-29)",
                "calls cuInit in a 1 on Python 3.12, installed alongside packages that initialize CUDA, through a 1 → b 2 at b/c.py:3 f (2026-11-29)",
            ]
        );
        // A native library calls it without a Python package in the stack.
        let native = row(r#""state":"yes","at":"jit_init""#);
        let told = sentences(&[&native]).join("; ");
        assert!(told.contains(" alone, at jit_init (2026"), "{told}");
        let text = page(&rows);
        assert!(
            text.contains("## Calls cuInit with other packages (1)"),
            "{text}"
        );
        assert!(page(&rows[..1]).contains("## Does not call cuInit (1)"));
        let clean = super::text(&rows[..1], 80);
        assert!(
            clean.contains("import a") && !clean.contains("NVML check"),
            "{clean}"
        );
        let html = as_format(&rows, Format::Html, 80).unwrap();
        assert!(
            html.contains("script-src 'sha256-"),
            "the policy allows the script that sorts"
        );
        assert_eq!(html.matches("<script>").count(), 1);
        crate::fixture::assert_closed(html.split("<script>").next().unwrap());
    }
}
