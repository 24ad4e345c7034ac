//! Figures in prose match the reports.
//!
//! Each test computes a figure from committed reports, writes the phrase that a page should have with it, and searches
//! for that phrase. A report that changes a figure fails here, and so does a page that gives a different one.

use crate::common;

mod memory;
mod surveys;

use std::fs;

use common::{read_json, root};
use serde_json::Value;

/// Looks for phrases on one page.
struct Page {
    name: &'static str,
    text: String,
    missing: Vec<String>,
}

impl Page {
    fn open(name: &'static str) -> Page {
        let text = fs::read_to_string(root().join(name)).expect("a page");
        Page {
            name,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            missing: Vec::new(),
        }
    }

    /// Checks that the page has the phrase, with the figures that were computed.
    fn says(&mut self, phrase: String) -> &mut Page {
        if !self.text.contains(&phrase) {
            self.missing.push(phrase);
        }
        self
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(
                self.missing.is_empty(),
                "{} does not say what was computed: {:#?}",
                self.name,
                self.missing
            );
        }
    }
}

/// Returns a committed JSON document.
fn document(path: &str) -> Value {
    read_json(root().join("reports").join(path))
}

/// Returns a size in MiB with one decimal place, or none if it is an integer.
fn mib(bytes: i64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if bytes % (1 << 20) == 0 {
        format!("{mib:.0}")
    } else {
        format!("{mib:.1}")
    }
}

#[test]
fn a_phrase_that_a_page_lacks_is_told() {
    let lacking = std::panic::catch_unwind(|| {
        Page::open("README.md")
            .says("# cuda-pitfalls".to_string())
            .says("7 million GPUs".to_string());
    });
    assert!(lacking.is_err());
}
