//! The inputs that a fuzzer began with and those that revealed a bug, with the same checks. tests/README.md explains
//! how to search for others.

pub(crate) mod forms;
pub(crate) mod readers;

use std::fs;
use std::panic::catch_unwind;

use crate::common::root;

#[test]
fn the_corpus_holds() {
    let mut wrong = Vec::new();
    for (name, read) in readers::READERS {
        let folder =
            fs::read_dir(root().join("tests/fuzz/corpus").join(name)).expect("a folder of inputs");
        let mut taken = 0;
        for path in folder.map(|entry| entry.expect("an input").path()) {
            let bytes = fs::read(&path).expect("an input");
            match catch_unwind(|| readers::holds(read, &bytes, forms::Forms::every(1, 0))) {
                Ok(is_taken) => taken += usize::from(is_taken),
                Err(_) => wrong.push(path),
            }
        }
        assert!(taken > 0, "{name}: no input is taken, so nothing is tried");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
