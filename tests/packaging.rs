//! Compares the published files with their descriptions: the names of a release's files, and the contents of an
//! archive. Nothing is built here, and no network is used.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{PROGRAM, Scratch, names_in, read_text, root, script};

fn give(command: &mut Command) -> Output {
    command
        .current_dir(root())
        .output()
        .expect("the script starts")
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:#?}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Returns a small file in place of the program: an unstripped one takes seconds to compress.
fn program(scratch: &Scratch) -> PathBuf {
    let path = scratch.path().join("program");
    script(&path, &format!("#!/bin/sh\nexec {PROGRAM} \"$@\"\n"));
    path
}

/// Returns the names of the files that `.github/dist` makes for targets; if `targets` is empty, for all.
fn names(targets: &[&str]) -> Vec<String> {
    lines(&give(
        Command::new(root().join(".github/dist"))
            .arg("--names")
            .args(targets),
    ))
}

fn manifest() -> toml::Table {
    table("Cargo.toml")
}

fn table(file: &str) -> toml::Table {
    toml::from_str(&read_text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn text<'a>(manifest: &'a toml::Table, path: &[&str]) -> &'a str {
    let (last, tables) = path.split_last().expect("a path has a name");
    let table = tables
        .iter()
        .try_fold(manifest, |table, name| table.get(*name)?.as_table());
    table
        .and_then(|table| table.get(*last)?.as_str())
        .unwrap_or_else(|| panic!("Cargo.toml has no {path:?}"))
}

/// Returns a template of cargo-binstall with its variables replaced.
fn expanded(template: &str, target: &str) -> String {
    let manifest = manifest();
    let version = text(&manifest, &["workspace", "package", "version"]);
    let values = [
        ("{ repo }", "https://forge.example/owner/cuda-pitfalls"),
        ("{ name }", "cuda-pitfalls"),
        ("{ version }", version),
        ("{ target }", target),
        ("{ bin }", "cuda-pitfalls"),
    ];
    let text = values
        .iter()
        .fold(template.to_owned(), |text, (variable, value)| {
            text.replace(variable, value)
        });
    assert!(
        !text.contains('{'),
        "{template} has a variable that is not known here"
    );
    text
}

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

#[test]
fn cargo_binstall_asks_for_the_archives_of_a_release() {
    let manifest = manifest();
    let template = text(&manifest, &["package", "metadata", "binstall", "pkg-url"]);
    assert_eq!(
        text(&manifest, &["package", "metadata", "binstall", "pkg-fmt"]),
        "tgz"
    );
    let made = names(&[]);
    for target in TARGETS {
        let address = expanded(template, target);
        let (folder, file) = address.rsplit_once('/').expect("an address");
        assert!(
            made.iter().any(|name| name == file),
            "{file} is none of {made:?}"
        );
        let version = text(&manifest, &["workspace", "package", "version"]);
        assert!(
            folder.ends_with(&format!("/releases/download/v{version}")),
            "{address}"
        );
    }
}

#[test]
fn an_archive_has_the_program_where_cargo_binstall_looks_and_a_share() {
    let scratch = Scratch::new();
    let name = expanded("{ name }-{ version }-{ target }", TARGETS[0]);
    let archiver = root().join(".github/archive");
    let made = give(
        Command::new(archiver)
            .arg(program(&scratch))
            .arg(&name)
            .arg(scratch.path()),
    );
    assert!(made.status.success(), "{made:#?}");
    let archive = scratch.path().join(format!("{name}.tgz"));
    let inside = lines(&give(
        Command::new("tar").args(["--list", "--file"]).arg(&archive),
    ));
    let manifest = manifest();
    let bin = expanded(
        text(&manifest, &["package", "metadata", "binstall", "bin-dir"]),
        TARGETS[0],
    );
    let share = [
        "man/man1/cuda-pitfalls.1",
        "bash-completion/completions/cuda-pitfalls",
    ];
    let deploy = ["kubernetes/job.yaml", "node/check", "slurm/health-check"];
    let share = share.iter().map(|file| format!("{name}/share/{file}"));
    let deploy = deploy
        .iter()
        .map(|file| format!("{name}/share/cuda-pitfalls/deploy/{file}"));
    let licences = ["MIT", "APACHE"].map(|licence| format!("{name}/LICENSE-{licence}"));
    for file in [bin].into_iter().chain(licences).chain(share).chain(deploy) {
        assert!(
            inside.contains(&file),
            "{file} is not in the archive:\n{}",
            inside.join("\n")
        );
    }
    let (mut careful, again) = (Command::new("sh"), scratch.path().join("again"));
    careful
        .args(["-c", "umask 077; exec \"$0\" \"$@\""])
        .arg(root().join(".github/archive"));
    let made = give(careful.arg(program(&scratch)).arg(&name).arg(&again));
    let [first, second] =
        [archive, again.join(format!("{name}.tgz"))].map(|file| fs::read(file).ok());
    assert!(
        made.status.success() && first.is_some() && first == second,
        "one input, two archives: {made:#?}"
    );
}

/// A program of another processor cannot print its own pages.
#[test]
fn foreign_archive_has_pages_printed_by_native_program() {
    let scratch = Scratch::new();
    let foreign = scratch.file("foreign", "not for this machine");
    let archiver = root().join(".github/archive");
    let mut without = Command::new(&archiver);
    let without = give(without.arg(&foreign).arg("foreign").arg(scratch.path()));
    assert!(!without.status.success(), "{without:#?}");
    let mut with = Command::new(&archiver);
    let with = give(
        with.arg(&foreign)
            .arg("foreign")
            .arg(scratch.path())
            .arg(program(&scratch)),
    );
    assert!(with.status.success(), "{with:#?}");
    let list = |what: &str| {
        let archive = scratch.path().join("foreign.tgz");
        lines(&give(
            Command::new("tar")
                .args(["--extract", "--to-stdout", what, "--file"])
                .arg(archive),
        ))
    };
    assert_eq!(list("foreign/bin/cuda-pitfalls"), ["not for this machine"]);
    assert!(list("foreign/share/man/man1/cuda-pitfalls-run.1").len() > 20);
}

#[test]
fn a_wheel_and_an_archive_are_made_for_each_target() {
    let all = names(&[]);
    assert_eq!(all.len(), 7, "{all:?}");
    let one = names(&[TARGETS[1]]);
    assert!(
        matches!(one.as_slice(), [wheel, archive, made_of]
        if wheel.ends_with("-py3-none-manylinux_2_28_aarch64.whl") && archive.ends_with("-aarch64-unknown-linux-gnu.tgz")
            && made_of.ends_with("-aarch64-unknown-linux-gnu.cdx.json")),
        "{one:?}"
    );
    assert!(
        read_text("pyproject.toml").contains("compatibility = \"manylinux_2_28\""),
        "the names of wheels say manylinux_2_28"
    );
}

#[test]
fn a_target_that_is_not_published_is_refused() {
    let output = give(
        Command::new(root().join(".github/dist")).args(["--names", "x86_64-unknown-linux-musl"]),
    );
    assert_eq!(output.status.code(), Some(1), "{output:#?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("`x86_64-unknown-linux-musl`") && error.contains(TARGETS[0]),
        "{error}"
    );
}

/// Returns a line for each package that `cargo tree` finds, without a download.
fn packages(arguments: &[&str]) -> BTreeSet<String> {
    let cargo = PathBuf::from(env::var_os("CARGO").unwrap_or("cargo".into()));
    let mut tree = Command::new(&cargo);
    // A compiler wrapper belongs to the user who runs the tests.
    tree.env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    tree.env("RUSTC", cargo.with_file_name("rustc"))
        .args(["tree", "--frozen", "--prefix=none"]);
    let found = lines(&give(tree.args(arguments)));
    let found = found
        .iter()
        .map(|line| line.trim_end_matches(" (*)"))
        .filter(|line| !line.is_empty());
    found.map(str::to_owned).collect()
}

#[test]
fn every_package_has_an_allowed_licence() {
    let (deny, about) = (table("deny.toml"), table("about.toml"));
    let allowed = deny["licenses"]["allow"].as_array().expect("a list");
    assert_eq!(
        about["accepted"].as_array(),
        Some(allowed),
        "about.toml and deny.toml"
    );
    let found = packages(&["--workspace", "--format={p}|{l}"]);
    assert!(found.len() > 150, "{found:?}");
    for package in found {
        // `AND` joins alternatives in parentheses. `/` is how `OR` was written once.
        let (_, offered) = package.split_once('|').expect("a package and its licences");
        let offered = offered.replace('/', " OR ").replace(['(', ')'], "");
        let is_allowed = |licence: &str| {
            allowed
                .iter()
                .any(|allowed| allowed.as_str() == Some(licence.trim()))
        };
        assert!(
            offered
                .split(" AND ")
                .all(|part| part.split(" OR ").any(is_allowed)),
            "deny.toml and {package}"
        );
    }
}

/// A wheel and an archive contain what most licenses call a copy. `.ci/nightly notices` makes the file and runs this.
#[test]
#[ignore = "reads what .github/notices makes"]
fn the_notices_name_every_package_of_the_program() {
    let notices = read_text("LICENSE-THIRD-PARTY");
    let notices: BTreeSet<&str> = notices
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .collect();
    let linked = packages(&[
        "--package=cuda-pitfalls",
        "--edges=normal,no-proc-macro",
        "--format={p}",
    ]);
    let names: BTreeSet<&str> = linked
        .iter()
        .filter_map(|package| package.split(' ').next())
        .collect();
    let lacking: Vec<_> = names.difference(&notices).collect();
    assert!(
        names.len() > 100 && lacking.is_empty(),
        "about.toml says how to make it anew: {lacking:?}"
    );
}

/// Workflows run elsewhere: one that is not valid YAML, or has a job without a step, would never run, and the failure
/// would go unnoticed.
#[test]
fn every_workflow_builds_by_the_oldest_rust_that_is_promised() {
    let manifest = manifest();
    let rust = text(&manifest, &["workspace", "package", "rust-version"]);
    for workflow in names_in(root().join(".github/workflows")) {
        let parsed = serde_norway::from_str(&read_text(&format!(".github/workflows/{workflow}")));
        let parsed: Value = parsed.unwrap_or_else(|error| panic!("{workflow}: {error}"));
        assert_eq!(parsed["env"]["RUST"], rust, "{workflow}");
        for (name, job) in parsed["jobs"].as_object().expect("jobs") {
            let steps = job["steps"].as_array().map_or(0, Vec::len);
            assert!(
                steps > 0 && job["runs-on"].is_string(),
                "{workflow}: {name} does nothing"
            );
        }
        let parts = &parsed["jobs"]["part"]["strategy"]["matrix"]["part"];
        let parts: Vec<_> = parts
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let script = format!("\nparts=({})\n", parts.join(" "));
        assert!(
            parts.is_empty() || read_text(".ci/nightly").contains(&script),
            "{workflow}: other parts"
        );
    }
    let images = read_text("Containerfile");
    assert!(images.contains(&format!("\nFROM rust:{rust}-")));
    let [stages, digests] = ["\nFROM ", "@sha256:"].map(|text| images.matches(text).count());
    assert_eq!(stages, digests, "an image is not by digest");
    for page in ["README.md", "docs/install.md"] {
        assert!(
            read_text(page).contains(&format!("Rust {rust} or newer")),
            "{page}"
        );
    }
}

/// A command of the page that nobody has carried out would go unnoticed until the release.
#[test]
fn every_installation_command_was_rehearsed() {
    let page = read_text("docs/install.md");
    let (before, rest) = page
        .split_once("<!-- written by .github/rehearse -->")
        .expect("the tables of the rehearsal");
    let (rehearsed, _) = rest
        .split_once("<!-- end of the rehearsal -->")
        .expect("the end of the tables");
    let rows = before.lines().filter(|line| line.starts_with("| `"));
    let mut commands = 0;
    for row in rows {
        let command = row.split('`').nth(1).expect("a command");
        let passed = rehearsed.lines().any(|line| {
            line.starts_with(&format!("| `{command}` |")) && line.ends_with("passed |")
        });
        assert!(
            passed || row.contains("| not rehearsed: "),
            "`{command}`: run .github/rehearse --page docs/install.md"
        );
        commands += usize::from(passed);
    }
    assert!(commands >= 6, "{commands} commands were rehearsed");
    assert!(!rehearsed.contains("**failed**"), "{rehearsed}");
}
