//! Promises of the repository, compared with its files: no test file is left out, every dependency has its line, no
//! crate grows unnoticed, and nothing names a machine of our own.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{read_text, root};

/// Returns the sources below a directory: path in the package and text.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder)
            .expect("a folder of the package")
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if !path.is_symlink()
                && path.extension().is_some_and(|extension| extension == "rs")
            {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.sort();
    let names = paths.iter().map(|path| {
        path.strip_prefix(root())
            .expect("a file of the package")
            .to_string_lossy()
    });
    names
        .map(|name| (name.to_string(), read_text(&name)))
        .collect()
}

/// Cargo finds no test by itself here: a file that nothing names would never run.
#[test]
fn every_file_of_tests_is_run() {
    let programs = read_text("Cargo.toml");
    let modules = ["tests/suite.rs", "tests/scenarios.rs"]
        .map(read_text)
        .concat();
    let mut idle = Vec::new();
    for entry in fs::read_dir(root().join("tests"))
        .expect("the folder of tests")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = match name.strip_suffix(".rs") {
            Some(name) => name,
            None if entry.path().join("main.rs").exists() => &name,
            None => continue,
        };
        let is_program = programs.contains(&format!("[[test]]\nname = \"{name}\""));
        if !is_program && !modules.contains(&format!("\nmod {name};\n")) {
            idle.push(name.to_owned());
        }
    }
    assert!(
        idle.is_empty(),
        "neither in tests/suite.rs nor a program in Cargo.toml: {idle:?}"
    );
}

/// A user's own run in `reports/` must not become evidence: nothing lists that directory to find evidence, and the list
/// is explicit.
#[test]
fn evidence_is_found_by_its_list_alone() {
    let mut stray = Vec::new();
    for (path, text) in ["src", "tests", "xtask"].into_iter().flat_map(sources) {
        let statements = text
            .split(';')
            .map(|it| it.split_whitespace().collect::<String>());
        let found =
            statements.filter(|it| it.contains(concat!("read_", "dir(root().join(\"reports")));
        stray.extend(found.map(|it| format!("{}: {it}", path)));
    }
    assert!(
        stray.is_empty(),
        "use common::evidence:\n{}",
        stray.join("\n")
    );
}

#[test]
fn every_dependency_has_its_line() {
    let manifest: toml::Table =
        toml::from_str(&read_text("Cargo.toml")).expect("the manifest is TOML");
    let text = read_text("docs/dependencies.md");
    let tables = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let tables = tables.and_then(|table| table.as_table()).into_iter();
    let names: Vec<&String> = tables
        .flat_map(toml::Table::keys)
        .filter(|it| !it.starts_with("cuda-pitfalls"))
        .collect();
    assert!(
        names.len() > 20,
        "only {} dependencies were found",
        names.len()
    );
    let has_line =
        |name: &str| text.contains(&format!("`{name}`")) || text.contains(&format!("[{name}]"));
    let lacking: Vec<&&String> = names.iter().filter(|name| !has_line(name)).collect();
    assert!(
        lacking.is_empty(),
        "docs/dependencies.md does not say why these are here: {lacking:?}"
    );
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    let text = read_text("README.md");
    let block = text
        .lines()
        .skip_while(|line| !line.starts_with("```"))
        .skip(1);
    let commands: Vec<&str> = block.take_while(|line| !line.starts_with("```")).collect();
    let found = matches!(commands.as_slice(), [run, test]
        if run.starts_with("cargo run") && run.ends_with("run --on auto") && test.starts_with("cargo test"));
    assert!(
        found,
        "the first block of README.md is not the command that runs and the one that tests:\n{commands:#?}"
    );
    let first = text
        .lines()
        .position(|line| line.starts_with("```"))
        .unwrap_or(usize::MAX);
    assert!(first < 8, "the commands come first, not on line {first}");
}

/// Names of places that exist only on a machine where this was once built.
#[test]
fn no_tracked_file_names_a_place_of_our_own() {
    let forbidden = [
        ["/wo", "rk/"],
        ["registry.", "npmjs"],
        ["index.", "crates.io"],
    ]
    .map(|parts| parts.concat());
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output();
    let Some(listed) = listed.ok().filter(|output| output.status.success()) else {
        // Outside a checkout, such as in a package from a registry, nothing is tracked.
        return;
    };
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut found = Vec::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let text = fs::read(root().join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        found.extend(
            forbidden
                .iter()
                .filter(|word| text.contains(*word))
                .map(|word| format!("{name} has `{word}`")),
        );
    }
    assert!(
        names.split('\0').count() > 50,
        "only a few files are tracked: {names}"
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Lines of Rust of a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    /// Lines that are neither tests, comments nor empty.
    code: usize,
    tests: usize,
    all: usize,
}

/// The most lines of each crate: code, tests, and all lines with comments and empty ones. Raise a figure in a separate
/// commit that says what a user gets for it. Lower it when a crate has become smaller.
const BUDGET: [(&str, usize, usize, usize); 11] = [
    ("scenarios", 160, 19, 242),
    ("src/answers", 20_092, 7_620, 33_102),
    ("src/calls", 1_328, 274, 1_989),
    ("src/core", 15_350, 6_232, 26_401),
    ("src/fake", 8_990, 577, 12_393),
    ("src/instrument", 7_945, 1_145, 11_167),
    ("src/program", 10_737, 661, 13_642),
    ("src/render", 15_383, 5_930, 24_322),
    ("src/trace", 11_169, 6_547, 21_083),
    ("tests", 0, 24_508, 27_326),
    ("xtask", 4_734, 912, 6_599),
];

/// Returns `true` if the entire file is a test: it lies below a directory of tests, or has the name of one.
fn is_test(path: &str) -> bool {
    path.split('/')
        .map(|part| part.strip_suffix(".rs").unwrap_or(part))
        .any(|part| {
            matches!(part, "tests" | "falsifiable")
                || part.starts_with("fixture")
                || part.starts_with("test_")
        })
}

/// Returns the lines of a file without their indentation, each with whether it belongs to a test.
fn lines(text: &str, is_test: bool) -> impl Iterator<Item = (&str, bool)> {
    // The depth of braces in an inline module of tests, and whether the line before opens one.
    let (mut depth, mut is_armed) = (None, false);
    text.lines().map(str::trim).map(move |line| {
        if !is_test && depth.is_none() {
            let opens = is_armed
                && (line.starts_with("mod ") || line.starts_with("pub mod "))
                && line.ends_with('{');
            depth = opens.then_some(0_i64);
            is_armed = line == "#[cfg(test)]"
                || is_armed && !opens && (line.is_empty() || line.starts_with("#["));
        }
        let is_inside = is_test || depth.is_some();
        if let Some(open) = &mut depth {
            *open += line.matches('{').count() as i64 - line.matches('}').count() as i64;
            if *open <= 0 && line.starts_with('}') {
                depth = None;
            }
        }
        (line, is_inside)
    })
}

impl Lines {
    fn add(&mut self, line: &str, is_test: bool) {
        self.all += 1;
        if !line.is_empty() && !line.starts_with("//") {
            *if is_test {
                &mut self.tests
            } else {
                &mut self.code
            } += 1;
        }
    }
}

#[test]
fn no_room_exceeds_its_budget_of_lines() {
    let mut rooms: BTreeMap<String, Lines> = BTreeMap::new();
    for (path, text) in ["scenarios", "src", "tests", "xtask"]
        .into_iter()
        .flat_map(sources)
    {
        let mut parts = path.split('/');
        let room = match (parts.next().unwrap_or_default(), parts.next()) {
            ("src", Some(room)) => format!("src/{room}"),
            (folder, _) => folder.to_owned(),
        };
        let room = rooms.entry(room).or_default();
        lines(&text, is_test(&path)).for_each(|(line, is_test)| room.add(line, is_test));
    }
    assert_eq!(
        rooms.keys().map(String::as_str).collect::<Vec<_>>(),
        BUDGET.map(|(room, ..)| room)
    );
    let mut over = Vec::new();
    for (lines, (room, code, tests, all)) in rooms.values().zip(BUDGET) {
        if lines.code > code || lines.tests > tests || lines.all > all {
            over.push((room, *lines));
        }
    }
    assert!(over.is_empty(), "over BUDGET: {over:#?}");
}

/// The most closures with a name outside tests. A closure that is used once is the expression; one that is used twice
/// is a function.
const NAMED_CLOSURES: usize = 78;

/// Returns the name of the item that begins on a line, if it is of one of these kinds.
fn item_name<'l>(line: &'l str, kinds: &[&str]) -> Option<&'l str> {
    let is_before = |word: &&str| {
        word.starts_with("pub") || word.ends_with(')') || ["const", "unsafe"].contains(word)
    };
    let mut words = line.split(' ').skip_while(is_before);
    words.next().filter(|kind| kinds.contains(kind))?;
    words
        .next()?
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// A name that can be searched for is not a common word, and belongs to one type.
#[test]
fn names_can_be_searched_for() {
    let (mut closures, mut vague, mut types) =
        (0, Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for (path, text) in ["src", "tests", "xtask"].into_iter().flat_map(sources) {
        for (line, is_test) in lines(&text, is_test(&path)) {
            let function = item_name(line, &["fn"])
                .filter(|name| ["of", "is", "one", "all_of"].contains(name));
            vague.extend(function.map(|name| format!("{path}: {name}")));
            if !is_test {
                let value = line
                    .strip_prefix("let ")
                    .and_then(|rest| rest.split_once(" = "));
                closures +=
                    usize::from(value.is_some_and(|(_, value)| {
                        value.trim_start_matches("move ").starts_with('|')
                    }));
                if let Some(name) = item_name(line, &["struct", "enum", "trait", "union"]) {
                    types.entry(name.to_owned()).or_default().push(path.clone());
                }
            }
        }
    }
    types.retain(|_, paths| paths.len() > 1);
    assert!(
        types.is_empty() && vague.is_empty(),
        "{types:#?} {vague:#?}"
    );
    assert!(
        closures <= NAMED_CLOSURES,
        "{closures} closures have a name"
    );
}

/// Most phrases that `tests/language.py` may find, by area. They only go down.
const MOST_PHRASES: [(&str, usize); 4] = [
    ("output", 15),
    ("docs", 144),
    ("scenarios", 33),
    ("comments", 35),
];

#[test]
fn phrases_that_are_read_twice_do_not_return() {
    let counted = Command::new("python3")
        .arg("tests/language.py")
        .current_dir(root())
        .output()
        .expect("python3 starts");
    assert!(counted.status.success(), "{counted:?}");
    let counted = String::from_utf8_lossy(&counted.stdout);
    for (area, most) in MOST_PHRASES {
        let count: usize = counted
            .lines()
            .find_map(|line| line.strip_prefix(area)?.trim().parse().ok())
            .expect("a count of each area");
        assert!(
            count <= most,
            "{area}: {count} phrases, and at most {most} are allowed; `python3 tests/language.py {area}` lists them"
        );
    }
}
