//! A report names the commit of the program that made it.

use crate::common;

use std::process::Command;

use common::{Scratch, root};

#[test]
fn a_report_names_the_commit_it_was_built_from() {
    let git = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["rev-parse", "--show-toplevel"])
        .output();
    let of = |it: std::process::Output| String::from_utf8_lossy(&it.stdout).trim().to_string();
    let is_checkout =
        git.is_ok_and(|git| git.status.success() && of(git) == root().to_string_lossy());
    let (_, report) =
        Scratch::new().simulate("sim:h200-x1", &["memory/context-cost"], &["--quick"]);
    assert_eq!(
        report.run.commit.as_deref(),
        option_env!("CUDA_PITFALLS_COMMIT")
    );
    let Some(commit) = &report.run.commit else {
        assert!(!is_checkout, "a checkout has a commit");
        return;
    };
    let hash = commit.strip_suffix("-dirty").unwrap_or(commit);
    assert!(
        hash.len() >= 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{commit}"
    );
    // Between a commit and the next build, the program is from the previous commit.
    let known = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["cat-file", "-e", hash])
        .status();
    assert!(
        known.is_ok_and(|known| known.success()),
        "{commit} is no commit of this checkout"
    );
}
