//! C structs that are passed by address: what callees fill in, and what callers do.

use std::sync::LazyLock;

use crate::parse;

/// A C struct written by the callee.
#[derive(Debug)]
pub struct Layout {
    /// The C type, or that of the largest where one buffer serves several.
    pub name: &'static str,
    /// Bytes to allocate; at least `sizeof` of the largest version known.
    pub size: usize,
    /// 32-bit words to write before the call (a version field, say).
    pub preset: Vec<Word>,
    /// The fields to report.
    pub fields: Vec<Field>,
}

/// A 32-bit word that is written before a call.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The member in C; `*` where the C type is not a struct.
    pub member: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// What is written.
    pub value: u32,
}

/// One field of a struct that the callee filled in.
#[derive(Debug)]
pub struct Field {
    /// The key in a report.
    pub name: &'static str,
    /// The member in C; `*` where the C type is not a struct.
    pub member: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// How it is read.
    pub read: Read,
    /// Whether it is the same in every attempt, and so a part of outcomes.
    pub stable: bool,
}

/// How a field of a struct is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A 32-bit signed integer.
    I32,
    /// A 64-bit unsigned integer.
    U64,
    /// A C string of at most this many bytes.
    Text(usize),
}

/// A C struct that the caller fills in: constants, and one word that the author gives.
#[derive(Debug)]
pub struct Template {
    /// The C type.
    pub name: &'static str,
    /// Its `sizeof`.
    pub size: usize,
    /// 32-bit words to write.
    pub preset: Vec<Word>,
    /// The member in C that the author gives; `*` where the C type is not a struct.
    pub member: &'static str,
    /// Where the author's word goes.
    pub given: usize,
    /// Bytes of the author's word: 4 or 8.
    pub width: usize,
}

/// All structs, by what they are for.
pub(crate) struct Structs {
    pub(crate) layouts: Vec<Layout>,
    pub(crate) templates: Vec<Template>,
}

static STRUCTS: LazyLock<Structs> =
    LazyLock::new(|| parse::read("structs.txt", parse::structs(include_str!("../tables/structs.txt"))));

impl Layout {
    /// What a callee writes, by its name in the table.
    pub fn find(name: &str) -> Option<&'static Layout> {
        STRUCTS.layouts.iter().find(|layout| layout.name == name)
    }
}

impl Template {
    /// What a caller fills in, by its name in the table.
    pub fn find(name: &str) -> Option<&'static Template> {
        STRUCTS.templates.iter().find(|template| template.name == name)
    }
}
