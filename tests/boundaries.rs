//! What the layout promises, held against the source text: which module may name what, how long a
//! file may be, what is said of every dependency, and what no file may contain.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::root;

/// A source file: its path below the package and its text.
struct Source {
    path: String,
    text: String,
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the package").flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.sort();
    let source = |path: PathBuf| Source {
        text: fs::read_to_string(&path).expect("a source file can be read"),
        path: path.strip_prefix(root()).expect("below the package").to_string_lossy().into_owned(),
    };
    paths.into_iter().map(source).collect()
}

impl Source {
    /// Whether the file is the module, or in the module's folder, or a test of it.
    fn is_in(&self, module: &str) -> bool {
        self.path == format!("src/{module}.rs") || self.path.starts_with(&format!("src/{module}/"))
    }

    /// Whether the whole file is compiled for tests alone.
    fn is_test(&self) -> bool {
        let name = self.path.trim_end_matches(".rs");
        ["/tests", "/fixture"].iter().any(|end| name.ends_with(end)) || name.contains("/tests/")
    }

    /// The lines that are compiled into the program, numbered: comments and what follows
    /// `#[cfg(test)] mod` are left out.
    fn code(&self) -> Vec<(usize, &str)> {
        let mut kept: Vec<(usize, &str)> = Vec::new();
        let mut lines = self.text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let opens_a_block = |line: &str| line.starts_with("mod ") && line.ends_with('{');
            if line == "#[cfg(test)]" && lines.peek().is_some_and(|(_, next)| opens_a_block(next)) {
                break;
            }
            let code = line.split("//").next().unwrap_or_default();
            kept.push((number + 1, code));
        }
        kept
    }

    /// Where the program's code names something as a word of its own.
    fn names(&self, word: &str) -> Vec<String> {
        let is_part = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_word = |code: &str| {
            code.match_indices(word).any(|(at, _)| {
                let before = at.checked_sub(1).and_then(|before| code.as_bytes().get(before).copied());
                !is_part(before) && !is_part(code.as_bytes().get(at + word.len()).copied())
            })
        };
        let found = self.code().into_iter().filter(|(_, code)| is_word(code));
        found.map(|(number, code)| format!("{}:{number}: {}", self.path, code.trim())).collect()
    }
}

#[test]
fn each_library_has_one_user() {
    for (library, modules) in [
        ("cudarc", &["worker"][..]),
        ("duct", &["supervisor"]),
        ("nvml_wrapper", &["sampler"]),
        ("py_spy", &["tracer"]),
        ("blazesym", &["tracer"]),
    ] {
        let all = sources("src");
        let (own, others): (Vec<&Source>, Vec<&Source>) =
            all.iter().partition(|source| modules.iter().any(|module| source.is_in(module)));
        let stray: Vec<String> = others.iter().flat_map(|source| source.names(library)).collect();
        assert!(stray.is_empty(), "only {modules:?} may name {library}:\n{}", stray.join("\n"));
        assert!(own.iter().any(|source| !source.names(library).is_empty()), "{modules:?} does not use {library}");
    }
}

#[test]
fn what_judges_is_pure() {
    let modules = [
        "scenario",
        "plan",
        "observe",
        "judge",
        "render",
        "text",
        "verdict",
        "report",
        "claim",
        "compare",
        "fleet",
        "survey",
        "mask",
        "preview",
        "exit",
        "export",
        "source",
        "fact",
        "observation",
        "diagnosis",
        "policy",
        "explain",
        "summary",
    ];
    let words = [
        "std::fs",
        "std::env",
        "std::process",
        "Instant",
        "SystemTime",
        "crate::clock",
        "fs::read_to_string",
        "File::open",
        "env::var",
        "Command::new",
    ];
    let pure = sources("src").into_iter().filter(|source| {
        let is_pure = modules.iter().any(|module| source.is_in(module));
        is_pure && !source.is_test() && source.path != "src/report/store.rs"
    });
    // Pages and the table of steps, which are not part of the program, are made in the same way.
    let is_page = |source: &Source| {
        let touches_files = ["xtask/src/documents.rs", "xtask/src/evidence.rs", "xtask/src/main.rs"];
        !source.is_test() && !touches_files.contains(&source.path.as_str())
    };
    let pure: Vec<Source> = pure.chain(sources("xtask/src").into_iter().filter(is_page)).collect();
    for module in modules {
        assert!(pure.iter().any(|source| source.is_in(module)), "there is no module {module}");
    }
    let stray: Vec<String> = pure.iter().flat_map(|source| words.iter().flat_map(|word| source.names(word))).collect();
    assert!(stray.is_empty(), "a clock, a file, the environment or a process:\n{}", stray.join("\n"));
}

/// Cargo finds no test by itself here: a file that nothing names would never run.
#[test]
fn every_file_of_tests_is_run() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a file of the package");
    let programs = read("Cargo.toml");
    let modules = read("tests/suite.rs") + &read("tests/pages.rs");
    let mut idle = Vec::new();
    for entry in fs::read_dir(root().join("tests")).expect("the folder of tests").flatten() {
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
    assert!(idle.is_empty(), "neither in tests/suite.rs nor a program in Cargo.toml: {idle:?}");
}

/// What a run of one's own left in `reports/` must not become evidence: nothing looks into that folder to see what is
/// there, and the list says it.
#[test]
fn evidence_is_found_by_its_list_alone() {
    let mut stray = Vec::new();
    for source in ["src", "tests", "xtask", "examples", "benches"].into_iter().flat_map(sources) {
        let statements = source.text.split(';').map(|it| it.split_whitespace().collect::<String>());
        let found = statements.filter(|it| it.contains(concat!("read_", "dir(root().join(\"reports")));
        stray.extend(found.map(|it| format!("{}: {it}", source.path)));
    }
    assert!(stray.is_empty(), "use cuda_pitfalls::evidence:\n{}", stray.join("\n"));
}

#[test]
fn text_is_at_the_bottom_and_renderings_at_the_top() {
    let all = sources("src");
    let upwards = |source: &&Source| source.is_in("text");
    let mut stray: Vec<String> = all.iter().filter(upwards).flat_map(|source| source.names("crate")).collect();
    let is_above = |source: &Source| ["render", "run", "cli"].iter().any(|module| source.is_in(module));
    let below = all.iter().filter(|source| !is_above(source) && !source.is_test());
    stray.extend(below.flat_map(|source| source.names("crate::render")));
    assert!(stray.is_empty(), "an import that runs back up:\n{}", stray.join("\n"));
    assert!(all.iter().any(|source| source.is_in("text")) && all.iter().any(is_above), "a module is missing");
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let mut silent = Vec::new();
    for source in sources("src").iter().filter(|source| !source.is_test()) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, code) in source.code() {
            // A block, not the signature of a function or the type of a pointer to one.
            let code = format!(" {code}");
            let is_block = [" ", "(", "=", "|"].iter().any(|before| {
                code.contains(&format!("{before}unsafe {{")) || code.contains(&format!("{before}unsafe impl"))
            });
            // The comment may stand above the statement that the block is a part of, or above the
            // list of arms that it speaks for.
            let above = lines.get(number.saturating_sub(9)..number).unwrap_or_default();
            if is_block && !above.iter().any(|line| line.contains("SAFETY")) {
                silent.push(format!("{}:{number}: {}", source.path, code.trim()));
            }
        }
    }
    assert!(silent.is_empty(), "no SAFETY comment above:\n{}", silent.join("\n"));
}

#[test]
fn every_dependency_has_its_line() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest can be read");
    let manifest: toml::Table = toml::from_str(&manifest).expect("the manifest is TOML");
    let text = fs::read_to_string(root().join("docs/dependencies.md")).unwrap_or_default();
    assert!(!text.is_empty(), "docs/dependencies.md is missing");
    let tables =
        ["dependencies", "dev-dependencies", "build-dependencies"].into_iter().filter_map(|it| manifest.get(it));
    let names: Vec<&String> = tables.filter_map(|table| table.as_table()).flat_map(toml::Table::keys).collect();
    assert!(names.len() > 20, "only {} dependencies were found", names.len());
    let has_line = |name: &str| {
        text.lines().any(|line| line.contains(&format!("`{name}`")) || line.contains(&format!("[{name}]")))
    };
    let lacking: Vec<&&String> = names.iter().filter(|name| !has_line(name)).collect();
    assert!(lacking.is_empty(), "docs/dependencies.md does not say why these are here: {lacking:?}");
}

/// `calls/` is a package of its own, so a package of the program has none of its files.
#[test]
fn nothing_is_built_from_a_file_of_another_package() {
    let folders = ["src", "sim/src", "shim/src", "hook/src", "build"];
    let all: Vec<Source> = folders.into_iter().flat_map(sources).filter(|source| !source.is_test()).collect();
    let taken = |source: &Source| -> Vec<String> {
        let lines = source.text.lines().filter(|line| line.contains("#[path") || line.contains("include_"));
        lines.filter(|line| line.contains("calls/")).map(|line| format!("{}: {}", source.path, line.trim())).collect()
    };
    let found: Vec<String> = all.iter().flat_map(taken).filter(|line| !line.contains("surveys/calls")).collect();
    assert!(found.is_empty(), "not in a package of the program:\n{}", found.join("\n"));
    assert!(all.iter().any(|source| source.path == "sim/src/model/names.rs"), "the link to the statuses is missing");
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    let text = fs::read_to_string(root().join("README.md")).unwrap_or_default();
    assert!(!text.is_empty(), "README.md is missing");
    let block = text.lines().skip_while(|line| !line.starts_with("```")).skip(1);
    let commands: Vec<&str> = block.take_while(|line| !line.starts_with("```")).collect();
    let found = matches!(commands.as_slice(), [run, test]
        if run.starts_with("cargo run") && run.ends_with("run --on auto") && test.starts_with("cargo test"));
    assert!(found, "the first block of README.md is not the command that runs and the one that tests:\n{commands:#?}");
    let first = text.lines().position(|line| line.starts_with("```")).unwrap_or(usize::MAX);
    assert!(first < 8, "the commands come first, not on line {first}");
}

/// What belongs to a machine on which this was once built, and to nobody else's.
#[test]
fn no_tracked_file_names_a_place_of_our_own() {
    let forbidden = [["/wo", "rk/"], ["registry.", "npmjs"], ["index.", "crates.io"]].map(|parts| parts.concat());
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let Some(listed) = listed.ok().filter(|output| output.status.success()) else {
        // Outside a checkout, such as in a package from a registry, nothing is tracked.
        return;
    };
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut found = Vec::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let text = fs::read(root().join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        found.extend(forbidden.iter().filter(|word| text.contains(*word)).map(|word| format!("{name} has `{word}`")));
    }
    assert!(names.split('\0').count() > 50, "only a few files are tracked: {names}");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The modules of `src` that a file names by `crate::`.
fn named_modules(source: &Source, modules: &[String]) -> Vec<String> {
    let code = source.code();
    let names = |module: &&String| {
        let path = format!("crate::{module}");
        let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
        let in_list = |code: &str| {
            let list = code.split_once("crate::{").map(|(_, list)| list).unwrap_or_default();
            list.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(|word| word == *module)
        };
        let by_path = |code: &str| code.match_indices(&path).any(|(at, _)| is_whole(&code[at + path.len()..]));
        code.iter().any(|(_, code)| by_path(code) || in_list(code))
    };
    modules.iter().filter(names).cloned().collect()
}

/// Each module lies above all that it uses: no two use each other, by whatever way round.
#[test]
fn no_module_uses_one_that_uses_it() {
    let all = sources("src");
    let module_of = |source: &Source| {
        let below = source.path.strip_prefix("src/").unwrap_or(&source.path);
        below.split('/').next().unwrap_or(below).trim_end_matches(".rs").to_owned()
    };
    let mut modules: Vec<String> = all.iter().map(module_of).collect();
    modules.sort();
    modules.dedup();
    assert!(modules.len() > 30, "only {modules:?}");
    let mut left: std::collections::BTreeMap<String, Vec<String>> =
        modules.iter().map(|it| (it.clone(), vec![])).collect();
    for source in all.iter().filter(|source| !source.is_test()) {
        let own = module_of(source);
        let used = named_modules(source, &modules).into_iter().filter(|used| *used != own);
        left.entry(own.clone()).or_default().extend(used);
    }
    // Take away what uses nothing that is left, until nothing is left.
    loop {
        let bottom: Vec<String> = left
            .iter()
            .filter(|(_, used)| used.iter().all(|used| !left.contains_key(used)))
            .map(|(module, _)| module.clone())
            .collect();
        if bottom.is_empty() {
            break;
        }
        left.retain(|module, _| !bottom.contains(module));
    }
    let among: Vec<String> = left
        .iter()
        .map(|(module, used)| {
            let mut used: Vec<&String> = used.iter().filter(|used| left.contains_key(*used)).collect();
            used.sort();
            used.dedup();
            format!("{module} -> {used:?}")
        })
        .collect();
    assert!(left.is_empty(), "modules that use each other:\n{}", among.join("\n"));
}
