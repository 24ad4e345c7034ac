//! A term, and the splitting of a text into pieces.

use std::collections::BTreeSet;

/// A searchable part of a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Term {
    /// The text in lower case.
    pub(super) text: String,
    /// `true` if it is the exact name of a call, a variable, a status or a Python function, or an error.
    pub(super) is_name: bool,
}

impl Term {
    pub(super) fn word(text: &str) -> Term {
        Term {
            text: text.to_owned(),
            is_name: false,
        }
    }

    pub(super) fn name(text: &str) -> Term {
        Term {
            text: text.to_lowercase(),
            is_name: true,
        }
    }

    /// Returns the term of an error, independent of its spelling.
    pub(super) fn error(code: u32) -> Term {
        Term::name(&format!("error {code}"))
    }
}

/// Splits a text at every character that does not occur in names. A dot between two parts of a name is kept, and so is
/// a dash between two parts of a word.
pub(super) fn split_pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut piece = String::new();
    let mut letters = text.chars().peekable();
    let mut last = None;
    while let Some(letter) = letters.next() {
        let before = last.replace(letter);
        let next_is_digit = letters.peek().is_some_and(char::is_ascii_digit);
        let next_is_name = letters
            .peek()
            .is_some_and(|next| next.is_ascii_alphabetic() || *next == '_');
        let is_inside = letter.is_alphanumeric()
            || letter == '_'
            || (letter == '.' && next_is_name && !piece.is_empty())
            || (letter == '-'
                && piece.is_empty()
                && before.is_none_or(|before| "=\"', ".contains(before))
                && next_is_digit)
            || (letter == '\'' && next_is_name && !piece.is_empty());
        if is_inside {
            piece.push(letter);
        } else if !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// Returns the pairs of adjacent words, ignoring the names between them.
pub(super) fn neighboring_words(terms: &[Term]) -> BTreeSet<(String, String)> {
    let words: Vec<&Term> = terms.iter().filter(|term| !term.is_name).collect();
    let neighbours = words.iter().zip(words.iter().skip(1));
    neighbours
        .map(|(one, other)| (one.text.clone(), other.text.clone()))
        .collect()
}
