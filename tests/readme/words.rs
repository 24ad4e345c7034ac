//! The length of the pages, and a way for the reader to begin.

use super::{README, WHEEL, commands, lines, page};

/// Returns the number of words on the lines that `counts` accepts by the language of their block, without comments and
/// link targets.
fn count_words(page: &str, counts: impl Fn(Option<&str>) -> bool) -> usize {
    let mut text = String::new();
    for (block, line) in lines(page) {
        if counts(block) && !line.starts_with("<!--") {
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
fn readme_has_at_most_700_words_with_code() {
    let count = count_words(&page(README), |_| true);
    assert!((100..=700).contains(&count), "{count} words");
}

#[test]
fn wheel_page_has_at_most_300_words_of_prose() {
    let count = count_words(&page(WHEEL), |block| block.is_none());
    assert!((100..=300).contains(&count), "{count} words");
}

/// The mask is our term: a reader who starts at the top must know it before it is used.
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
    let (before, table) = text.split_once("## Start here").expect("the heading");
    let words_before = count_words(before, |block| block.is_none());
    assert!(
        words_before < 300,
        "the table begins after {words_before} words"
    );
    let rows = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let given: Vec<usize> = rows.map(|row| commands::commands(row).len()).collect();
    assert_eq!(given, [1; 5]);
}
