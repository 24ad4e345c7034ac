//! A reader under libFuzzer, selected by `READER`. tests/README.md explains how to run it.

#![no_main]

mod forms;
mod mutate;
mod readers;

use std::sync::OnceLock;

use forms::Forms;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use readers::{READERS, Reader, holds};

static READER: OnceLock<Reader> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("READER").unwrap_or_default();
        let names = READERS.map(|(name, _)| name).join(" ");
        let found = READERS.iter().find(|(known, _)| *known == name);
        READER.get_or_init(|| found.unwrap_or_else(|| panic!("READER is one of: {names}")).1);
    },
    |bytes: &[u8]| {
        let part = bytes.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        if let Some(reader) = READER.get() {
            holds(*reader, bytes, Forms::every(12, part));
        }
    }
);

fuzz_mutator!(|bytes: &mut [u8], size: usize, most: usize, seed: u32| {
    let text = std::str::from_utf8(&bytes[..size])
        .ok()
        .filter(|_| seed % 8 != 0);
    match text
        .and_then(|text| mutate::changed(text, seed))
        .filter(|text| !text.is_empty() && text.len() <= most)
    {
        Some(text) => {
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            text.len()
        }
        None => fuzzer_mutate(bytes, size, most),
    }
});
