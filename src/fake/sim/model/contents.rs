//! What is in device memory: the first eight bytes of each piece, where they are known.

use crate::model::behaviour::FRESH_MEMORY_IS_ZERO;
use std::collections::BTreeMap;

/// The word that is kept of each piece.
pub const WORD_BYTES: u64 = 8;

/// The first word of every piece, by address.
#[derive(Default)]
pub struct Contents {
    words: BTreeMap<u64, Option<u64>>,
    /// Memory was given back, and what is handed out next may have been in use.
    reused: bool,
}

impl Contents {
    /// Notes a piece of which the module's text says what is in it, or not.
    pub fn declare(&mut self, base: u64, bytes: u64, word: Option<u64>) {
        self.words
            .insert(base, word.filter(|_| bytes >= WORD_BYTES));
    }

    /// Notes memory that was just handed out.
    pub fn fresh(&mut self, base: u64) {
        let known = FRESH_MEMORY_IS_ZERO && !self.reused;
        self.words.insert(base, known.then_some(0));
    }

    /// Notes memory that was given back.
    pub fn forget(&mut self, base: u64) {
        self.words.remove(&base);
        self.reused = true;
    }

    /// Notes what the first word of a piece is from now on; `None` where it is not known.
    pub fn set_word(&mut self, base: u64, word: Option<u64>) {
        self.words.insert(base, word);
    }

    /// The first word of a piece, where it is known.
    pub fn word(&self, base: u64) -> Option<u64> {
        self.words.get(&base).copied().flatten()
    }
}
