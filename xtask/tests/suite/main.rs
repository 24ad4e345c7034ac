//! The committed documents, the pages among them, and how `explain` fares. All documents are made once.

mod documents;
mod explain;
mod pages;

use std::sync::OnceLock;

use xtask::documents::{MadeDocuments, make_documents};

fn made() -> &'static MadeDocuments {
    static MADE: OnceLock<MadeDocuments> = OnceLock::new();
    MADE.get_or_init(|| make_documents().expect("the documents can be made"))
}
