use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::documents::root;

const DAY: &str = "2027-01-02";
const ADDRESS: &str = "https://example.org/someone/cuda-pitfalls";
const LINE: &str = "9.8.7 --repository https://example.org/someone/cuda-pitfalls";

fn release(tree: &TempDir, line: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    write_release(tree.path(), &words, DAY).map_err(|error| error.to_string())
}

fn current_release() -> Release {
    let manifest = fs::read_to_string(root().join(MANIFEST)).expect("the manifest");
    Release::from_manifest(&manifest).expect("a release")
}

/// Returns the files of the checkout, without reports, with something that is unreleased.
fn tracked_files() -> BTreeMap<String, Vec<u8>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--", ".", ":!reports"]);
    let listed = command.current_dir(root()).output().expect("git starts");
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let mut files = BTreeMap::new();
    for name in names.split_terminator('\0') {
        // One that was removed is still tracked.
        if let Ok(bytes) = fs::read(root().join(name)) {
            files.insert(name.to_owned(), bytes);
        }
    }
    let changelog = String::from_utf8_lossy(&files[CHANGELOG]);
    let changelog = changelog.replace(UNRELEASED, &format!("{UNRELEASED}\n- New.\n"));
    files.insert(CHANGELOG.to_owned(), changelog.into_bytes());
    files
}

fn copied_tree(files: &BTreeMap<String, Vec<u8>>) -> TempDir {
    let tree = TempDir::new().expect("a temporary directory");
    for (path, bytes) in files {
        let copy = tree.path().join(path);
        fs::create_dir_all(copy.parent().expect("a directory")).expect("it is created");
        fs::write(copy, bytes).expect("it is written");
    }
    tree
}

/// Returns a copy of the files that a release reads.
fn small_tree() -> TempDir {
    let read = read_files(root()).expect("files");
    let mut files = tracked_files();
    files.retain(|path, _| read.contains_key(path.as_str()));
    copied_tree(&files)
}

/// Files that show documents with the version that wrote them, or are inputs of tests.
fn has_old_versions(path: &str) -> bool {
    const PATHS: [&str; 7] = [
        // The wheels of the last release, until those of the next one are built.
        ".github/wheels.txt",
        CHANGELOG,
        "docs/examples/",
        "docs/run.md",
        "python/pytest/results/",
        "src/render/results.rs",
        "tests/",
    ];
    let is_test = path.contains("fixture") || path.contains("/tests");
    !LOCKS.contains(&path) && (is_test || PATHS.iter().any(|start| path.starts_with(start)))
}

/// Returns the lines of a file that have our version of `current`, or its address.
fn old_lines(path: &str, text: &str, current: &Release) -> Vec<String> {
    let placeholder = ["OWNER", "/cuda-pitfalls"].concat();
    let mut old = Vec::new();
    let is_manifest = ["Cargo.toml", "pyproject.toml", "Chart.yaml"]
        .iter()
        .any(|name| path.ends_with(name));
    let mut is_below_name = false;
    for line in text.lines() {
        let is_ours = if path.ends_with(".lock") {
            is_below_name
        } else {
            let begins = line.starts_with("version") || line.starts_with("appVersion");
            line.contains("pitfalls") || is_manifest && begins
        };
        is_below_name = line.starts_with("name = \"cuda-pitfalls");
        let has_version = is_ours && line.contains(&current.version) && !has_old_versions(path);
        if has_version || line.contains(&placeholder) || line.contains(&current.repository) {
            old.push(format!("{path}: {line}"));
        }
    }
    old
}

#[test]
fn release_leaves_no_old_version_or_address() {
    let (before, current) = (tracked_files(), current_release());
    let tree = copied_tree(&before);
    let written = release(&tree, LINE).expect("a release");
    let (mut changed, mut old) = (Vec::new(), Vec::new());
    for (path, bytes) in &before {
        let after = fs::read(tree.path().join(path)).expect("it was copied");
        if after != *bytes {
            changed.push(path.clone());
        }
        old.extend(old_lines(path, &String::from_utf8_lossy(&after), &current));
    }
    assert_eq!(changed, written, "only these are changed");
    assert!(old.is_empty(), "{old:#?}");
    assert_eq!(release(&tree, LINE), Ok(Vec::new()), "the second time");

    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--frozen", "--format-version=1"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = cargo.current_dir(tree.path()).output().expect("it starts");
    let metadata = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let version = "\"name\":\"cuda-pitfalls-core\",\"version\":\"9.8.7\"";
    assert!(metadata.contains(version), "{error}");
    let repository = format!("\"repository\":\"{ADDRESS}\"");
    assert!(metadata.matches(&repository).count() > 8, "{error}");
}

#[test]
fn refused_release_changes_no_file() {
    let tree = small_tree();
    let before = read_files(tree.path()).expect("files");
    let usage = release(&tree, "9.8.7 --url https://example.org/a/b").expect_err("no address");
    assert_eq!(usage, USAGE);
    for (version, address, reason) in [
        ("v9.8.7", "https://example.org/a/b", "not a version"),
        ("9.8", "https://example.org/a/b", "not a version"),
        ("9.8.7-rc.1", "https://example.org/a/b", "not a version"),
        ("9.08.7", "https://example.org/a/b", "not a version"),
        ("0.0.9", "https://example.org/a/b", "is older than"),
        ("9.8.7", "http://example.org/a/b", "not the address"),
        ("9.8.7", "https://example.org/a", "not the address"),
        ("9.8.7", "https://example.org/a/b/", "not the address"),
        ("9.8.7", "https://example.org/a/b.git", "not the address"),
        ("9.8.7", "https://example.org/OWNER/b", "not the address"),
        ("9.8.7", "https://example.org/a/\"b", "not the address"),
    ] {
        let error = release(&tree, &format!("{version} --repository {address}"));
        let error = error.expect_err(reason);
        assert!(error.contains(reason), "{version} {address}: {error}");
    }
    // The name under which the last file is written first is taken.
    let taken = tree.path().join(format!("{PLUGIN}.release"));
    fs::write(&taken, "mine").expect("a file");
    let error = release(&tree, LINE).expect_err("a name is taken");
    assert!(error.contains(PLUGIN), "{error}");
    assert_eq!(fs::read_to_string(taken).expect("it is kept"), "mine");
    assert!(!tree.path().join("Cargo.toml.release").exists());
    let after = read_files(tree.path()).expect("files");
    assert!(before == after, "a file has changed");
}

#[test]
fn place_that_is_not_found_is_named() {
    let mut paths: Vec<&str> = PLACES.iter().map(|(path, _)| *path).collect();
    paths.extend(LOCKS.iter().chain(&[CHANGELOG]));
    if current_release().repository.contains(NO_OWNER) {
        paths.extend(PAGES);
    }
    for path in paths {
        let tree = small_tree();
        fs::write(tree.path().join(path), "").expect("it is written");
        let error = release(&tree, LINE).expect_err(path);
        assert!(
            error.starts_with(path) && error.contains("restore it"),
            "{error}"
        );
    }
}

#[test]
fn unreleased_changes_go_under_their_version() {
    let text = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 1.0.0 (2026-01-01)\n\n- Old.\n";
    let opened = open_section(text, "1.1.0", DAY).expect("a section");
    let section = "## Unreleased\n\n## 1.1.0 (2027-01-02)\n\n- New.\n\n## 1.0.0 (2026-01-01)\n";
    assert!(opened.contains(section), "{opened}");
    assert_eq!(
        open_section(&opened, "1.1.0", DAY).expect("no change"),
        opened
    );
    for (text, version, reason) in [
        (opened.as_str(), "1.2.0", "nothing under"),
        (text, "1.0.0", "a section 1.0.0"),
    ] {
        let error = open_section(text, version, DAY).expect_err(version);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

/// A page that tells readers to download the program says in one sentence that they cannot, while they cannot.
#[test]
fn pages_say_whether_it_is_published() {
    const DOWNLOADS: [&str; 9] = [
        "uses: OWNER/",
        "binstall cuda-pitfalls",
        "cargo add cuda-pitfalls",
        "cargo install --locked cuda-pitfalls",
        "crates.io/crates/cuda-pitfalls",
        "pip install cuda-pitfalls",
        "pip install 'cuda-pitfalls",
        "pypi.org/project/cuda-pitfalls",
        "uvx cuda-pitfalls",
    ];
    let is_published = !current_release().repository.contains(NO_OWNER);
    let mut files = tracked_files();
    files.retain(|path, _| path.ends_with(".md"));
    for (path, bytes) in files {
        let text = String::from_utf8_lossy(&bytes);
        let has_sentence = !is_published && PAGES.contains(&path.as_str());
        let sentences = text.to_lowercase().matches("not published yet").count();
        assert_eq!(sentences, usize::from(has_sentence), "{path}");
        assert_eq!(text.contains(NOT_PUBLISHED), has_sentence, "{path}");
        let claim = DOWNLOADS.iter().find(|download| text.contains(*download));
        assert!(
            is_published || has_sentence || claim.is_none(),
            "{path}: {claim:?}"
        );
    }
}
