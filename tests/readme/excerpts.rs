//! The outputs on pages match those of the program.
//!
//! `cargo xtask bless` rewrites them, and so does `CUDA_PITFALLS_BLESS=1` on this test; read the diff.

use std::fs;

use super::page;
use crate::common::{Scratch, bless, root};

/// Pages with excerpts, and the number of columns of their outputs.
const PAGES: [(&str, usize); 6] = [
    ("README.md", 80),
    ("python/README.md", 80),
    ("docs/export.md", 80),
    ("docs/mask.md", 80),
    ("docs/memory.md", 100),
    ("docs/run.md", 100),
];

/// Returns the output of the program on stdout, called with the words of a command of a page.
fn printed(command: &str, columns: usize) -> String {
    let scratch = Scratch::new();
    let arguments: Vec<&str> = command
        .strip_prefix("cuda-pitfalls ")
        .expect("our command")
        .split(' ')
        .collect();
    let mut command = scratch.command(&arguments);
    command.env("COLUMNS", columns.to_string());
    let ran = scratch.ran(command).good();
    ran.stdout
}

/// Returns the parts of a text: a line that begins at the margin, with the lines below it.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match parts.last_mut() {
            Some(last) if line.starts_with(' ') => *last += &format!("{line}\n"),
            _ => parts.push(format!("{line}\n")),
        }
    }
    parts
}

/// Returns the first part of a text that contains all of the words, with an ellipsis for each omission.
fn chosen(text: &str, words: &str) -> String {
    let mut wanted: Vec<&str> = words.split(", ").collect();
    let parts = parts(text);
    for word in &wanted {
        assert!(
            parts.iter().any(|part| part.contains(word)),
            "{word} is not in the text:\n{text}"
        );
    }
    let mut out = String::new();
    let mut is_left_out = false;
    for part in parts {
        let found = wanted.iter().position(|word| part.contains(word));
        if let Some(index) = found {
            wanted.remove(index);
            out += if is_left_out && !out.is_empty() {
                "…\n"
            } else {
                ""
            };
            out += &part;
        }
        is_left_out = found.is_none();
    }
    out
}

/// Returns a page with new excerpts, and the number of excerpts. An excerpt is a block of text after a comment:
/// `<!-- excerpt: COMMAND -->` for all that the command prints, `<!-- excerpt: COMMAND: PART, PART -->` for parts of it.
fn with_excerpts(page: &str, printed: impl Fn(&str) -> String) -> (String, usize) {
    const COMMENT: &str = "<!-- excerpt: cuda-pitfalls ";
    let mut pieces = page.split(COMMENT);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    let mut made = 0;
    for piece in pieces {
        let (head, block) = piece
            .split_once(" -->\n```")
            .expect("a block is below an excerpt's comment");
        let (language, block) = block.split_once('\n').expect("the block begins");
        let (_, behind) = block.split_once("```\n").expect("the block ends");
        let command = format!("cuda-pitfalls {head}");
        let text = match command.split_once(": ") {
            Some((command, words)) => chosen(&printed(command), words),
            None => printed(&command),
        };
        out += &format!(
            "{COMMENT}{head} -->\n```{language}\n{}\n```\n{behind}",
            text.trim_end()
        );
        made += 1;
    }
    (out, made)
}

#[test]
fn excerpts_are_what_the_program_prints() {
    let mut stale = Vec::new();
    for (path, columns) in PAGES {
        let text = page(path);
        let (made, excerpts) = with_excerpts(&text, |command| printed(command, columns));
        assert!(excerpts > 0, "{path} has no excerpt");
        if made != text && bless() {
            fs::write(root().join(path), &made).expect("the page can be written");
        } else if made != text {
            stale.push(path);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?}: an excerpt is not what the program prints; `cargo xtask bless`"
    );
}
