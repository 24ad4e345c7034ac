//! How long the pages are, and that a reader finds a way to begin.

use super::{README, WHEEL, commands, lines, page};

/// The words that are read: without blocks of code, comments and the targets of links.
fn words(page: &str) -> usize {
    let mut text = String::new();
    for (block, line) in lines(page) {
        if block.is_none() && !line.starts_with("<!--") {
            let mut parts = line.split("](");
            text += parts.next().unwrap_or_default();
            for part in parts {
                text += part.split_once(')').map_or("", |(_, rest)| rest);
            }
            text.push('\n');
        }
    }
    text.split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .count()
}

#[test]
fn the_readme_has_at_most_1000_words_and_the_page_of_the_wheel_300() {
    for (path, most) in [(README, 1000), (WHEEL, 300)] {
        let count = words(&page(path));
        assert!(
            (100..=most).contains(&count),
            "{path} has {count} words, of at most {most}"
        );
    }
}

/// The mask is our word: who reads from the top must know it before it is used.
#[test]
fn the_mask_is_introduced_before_it_is_used() {
    for path in [README, WHEEL] {
        let text = page(path);
        let introduced = text
            .find("**mask** is `CUDA_VISIBLE_DEVICES`")
            .expect("the page says what the mask is");
        let before = text.get(..introduced).unwrap_or_default();
        assert!(
            !before.contains("mask"),
            "{path} uses the word before it says what it means:\n{before}"
        );
    }
}

/// Five kinds of users, each with one command to begin with, on the first screens.
#[test]
fn each_of_five_users_has_one_command() {
    let text = page(README);
    let (before, table) = text
        .split_once("## Which of these are you?")
        .expect("the heading");
    assert!(
        words(before) < 300,
        "the table begins after {} words",
        words(before)
    );
    let rows = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let given: Vec<usize> = rows.map(|row| commands::commands(row).len()).collect();
    assert_eq!(given, [1; 5]);
}
