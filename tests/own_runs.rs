//! A user's own runs never count as evidence, regardless of their directory and content.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use cuda_pitfalls::input::{PACKED, document_path};
use cuda_pitfalls::report::REPORT;

use common::evidence::{EvidenceError, LIST, Listed, listed, text};
use common::{Scratch, evidence, read_document, read_text, root};

#[test]
fn every_file_of_the_list_is_what_was_listed() {
    assert!(evidence().len() > 150);
}

/// A committed directory that is not listed would not count as evidence, and the omission would go unnoticed.
#[test]
fn the_list_has_what_is_committed_and_nothing_else() {
    let tracked = Command::new("git")
        .args(["ls-files", "-z", "reports"])
        .current_dir(root())
        .output();
    let Some(tracked) = tracked
        .ok()
        .filter(|output| output.status.success() && !output.stdout.is_empty())
    else {
        // Outside a checkout nothing is committed.
        return;
    };
    let tracked = String::from_utf8_lossy(&tracked.stdout).into_owned();
    let is_evidence = |name: &&str| {
        !name.is_empty()
            && !name.ends_with(".md")
            && !name.ends_with(".schema.json")
            && !name.ends_with("provenance.toml")
    };
    let tracked: BTreeSet<&str> = tracked
        .split('\0')
        .filter(is_evidence)
        .filter(|name| *name != LIST)
        .map(|name| name.strip_suffix(PACKED).unwrap_or(name))
        .collect();
    let listed: BTreeSet<String> = listed()
        .into_iter()
        .map(|one| format!("reports/{}", one.name))
        .collect();
    let missing: Vec<&&str> = tracked
        .iter()
        .filter(|name| !listed.contains(**name))
        .collect();
    assert!(
        missing.is_empty(),
        "`cargo xtask evidence FOLDER` lists what is committed: {missing:#?}"
    );
    let gone: Vec<&String> = listed
        .iter()
        .filter(|name| !tracked.contains(name.as_str()))
        .collect();
    assert!(gone.is_empty(), "listed but not committed: {gone:#?}");
}

#[test]
fn a_run_of_ones_own_changes_nothing() {
    let scratch = Scratch::new();
    let folder = |name: &str| {
        let folder = scratch.reports().join(name);
        fs::create_dir_all(&folder).expect("a folder of our own");
        folder
    };
    let committed = |name: &str| root().join("reports").join(name).join(REPORT);
    for name in ["h200-x1", "h200-x2-memory"] {
        let packed = document_path(&committed(name));
        let link = folder(name).join(packed.file_name().expect("a file"));
        symlink(packed, link).expect("a link of our own");
    }
    let found = || -> Vec<String> {
        listed()
            .into_iter()
            .filter(|one| one.find(&scratch.reports()).is_ok())
            .map(|one| one.name)
            .collect()
    };
    let before = found();
    assert_eq!(
        before,
        ["h200-x1/report.json", "h200-x2-memory/report.json"]
    );

    // Simulated runs, where README's first command puts them and in the folder of a committed report.
    for out in [scratch.reports(), scratch.reports().join("h200-x1")] {
        scratch
            .run(&[
                "run",
                "visibility/mask-after-cuinit",
                "--on",
                "sim",
                "--quick",
                "--out",
                &out.to_string_lossy(),
            ])
            .ended(0, "ok");
    }
    // Measured runs: in a separate folder, and with the names of committed ones.
    let measured = read_document(committed("h200-x2"));
    let other = measured.replacen("\"id\":\"", "\"id\":\"own-", 1);
    assert_ne!(measured, other);
    for name in [
        "h100-x8",
        "2026-11-22T10-00-00Z-abcd",
        "h200-x2",
        "h200-x4/h200-x2",
    ] {
        fs::write(folder(name).join(REPORT), &other).expect("a file of our own");
    }
    fs::write(folder("h200-x2-copy").join(REPORT), &measured).expect("a file of our own");

    assert_eq!(found(), before);
}

#[test]
fn the_list_is_in_order_and_printed_as_it_was_read() {
    let list = listed();
    assert!(list.len() > 150, "{}", list.len());
    assert!(
        list.is_sorted() && list.windows(2).all(|pair| pair[0].name != pair[1].name),
        "`cargo xtask evidence`"
    );
    assert_eq!(text(&list), read_text(LIST));
    assert!(
        list.iter().all(|one| one.sha256.len() == 64
            && one.sha256.bytes().all(|digit| digit.is_ascii_hexdigit()))
    );
    let leaves = |one: &&Listed| {
        one.name
            .split('/')
            .any(|part| ["", ".", ".."].contains(&part))
    };
    assert_eq!(list.iter().find(leaves), None, "a path leaves `reports`");
}

#[test]
fn a_file_that_is_another_or_not_there_is_not_evidence() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/report.json"), "abc").unwrap();
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
    let mut one = Listed {
        name: "a/report.json".to_owned(),
        sha256,
    };
    assert_eq!(
        one.find(folder.path()).unwrap(),
        folder.path().join("a/report.json")
    );
    assert_eq!(
        (one.folder_of("report.json"), one.folder_of("port.json")),
        (Some("a"), None)
    );
    fs::write(folder.path().join("a/report.json"), "abd").unwrap();
    assert!(matches!(
        one.find(folder.path()),
        Err(EvidenceError::Changed { .. })
    ));
    one.name = "a/b/report.json".to_owned();
    assert!(matches!(
        one.find(folder.path()),
        Err(EvidenceError::Missing { .. })
    ));
    assert_eq!(one.folder_of("report.json"), Some("a/b"));
}
