//! A report replaces the previous one atomically: a reader at that time gets one of the two in full.

use crate::common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use cuda_pitfalls::report::Store;

use common::Scratch;

#[test]
fn a_document_is_renamed_into_place_and_never_written_over() {
    let scratch = Scratch::new();
    let store = Store::at(&scratch.path().join("run")).expect("a folder");
    let path = store
        .write_document("document.json", &"a".repeat(1 << 20))
        .expect("the first is written");
    let (mut reader, first) = (
        File::open(&path).expect("it is there"),
        fs::metadata(&path).expect("it is there"),
    );
    let mut begun = vec![0u8; 1 << 10];
    reader.read_exact(&mut begun).expect("a reader has begun");
    store
        .write_document("document.json", &"b")
        .expect("the second is written");
    let mut rest = String::new();
    reader
        .read_to_string(&mut rest)
        .expect("the reader goes on");
    assert_eq!(
        begun.len() + rest.len(),
        (1 << 20) + 3,
        "a reader that had begun has the old one in full"
    );
    assert!(!rest.contains('b'), "the old document was written over");
    assert_ne!(
        fs::metadata(&path).expect("it is there").ino(),
        first.ino(),
        "it is another file"
    );
    assert_eq!(
        fs::read_to_string(&path).expect("it can be read"),
        "\"b\"\n"
    );
    let left = fs::read_dir(scratch.path().join("run"))
        .expect("a folder")
        .count();
    assert_eq!(left, 1, "nothing is left beside it");
}
