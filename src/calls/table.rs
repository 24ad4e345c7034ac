//! Reading a table line by line. The tables are a part of the program, so that what is wrong in one
//! ends it, with the file and the line; a unit test reads them all.

use std::fmt;

/// What is wrong in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TableError {
    /// A line does not have the form that is described here.
    Line(&'static str),
    /// A word of a line, and what is wrong with it.
    Word(&'static str, &'static str),
    /// The words of which one may stand here, and the word that does.
    Found(&'static str, &'static str),
    /// The name of a parameter, and its C type, of which no way to pass it is known.
    CType(&'static str, &'static str),
    /// The struct that the word which an author gives would exceed.
    Given(&'static str),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Line(why) => f.write_str(why),
            TableError::Word(word, why) => write!(f, "`{word}` {why}"),
            TableError::Found(expected, found) => write!(f, "expected {expected}, found `{found}`"),
            TableError::CType(name, c_type) => write!(f, "`{name}`: how `{c_type}` is passed is not known"),
            TableError::Given(name) => write!(f, "the author's word of `{name}` is not inside it"),
        }
    }
}

/// What is wrong, and in which line of the table, from 1.
pub(crate) type Wrong = (usize, TableError);

/// What was read of a table.
///
/// # Panics
/// If something is wrong in it.
pub(crate) fn read<T>(file: &str, read: Result<T, Wrong>) -> T {
    read.unwrap_or_else(|(line, why)| panic!("src/calls/tables/{file}:{line}: {why}"))
}

/// A line that says something, with its number, and whether it is indented.
pub(crate) fn lines(text: &'static str) -> impl Iterator<Item = (usize, bool, &'static str)> {
    let said = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    said.map(|(index, line)| (index + 1, line.starts_with(' '), line.trim()))
}

pub(crate) fn number(text: &'static str) -> Result<i64, TableError> {
    let text = text.trim();
    let read = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| TableError::Word(text, "is no number"))
}

pub(crate) fn small<T: TryFrom<i64>>(text: &'static str) -> Result<T, TableError> {
    T::try_from(number(text)?).map_err(|_| TableError::Word(text.trim(), "is out of range"))
}

/// `12.3` as `CUDA_VERSION` has it.
pub(crate) fn version(text: &'static str) -> Result<u32, TableError> {
    let (major, minor) = text.split_once('.').ok_or(TableError::Word(text, "is no version"))?;
    Ok(small::<u32>(major)? * 1000 + small::<u32>(minor)? * 10)
}

pub(crate) fn name(text: &'static str) -> Result<&'static str, TableError> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok(text) } else { Err(TableError::Word(text, "is no name")) }
}
