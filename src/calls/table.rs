//! Reading a table line by line. The tables are part of the program, so an error in one ends the program with the file
//! and the line. A unit test reads all tables.

use std::fmt;

#[derive(Clone, Copy, Debug)]
pub(crate) enum TableError {
    /// A line does not have this form.
    Line(&'static str),
    /// A word of a line, and the error in it.
    Word(&'static str, &'static str),
    /// The allowed words, and the word that was found instead.
    Found(&'static str, &'static str),
    /// The name of a parameter, and its C type, which has no known way of passing.
    CType(&'static str, &'static str),
    /// The struct into which the author's word does not fit.
    Given(&'static str),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Line(why) => f.write_str(why),
            TableError::Word(word, why) => write!(f, "`{word}` {why}"),
            TableError::Found(expected, found) => write!(f, "expected {expected}, found `{found}`"),
            TableError::CType(name, c_type) => {
                write!(f, "`{name}`: it is unknown how to pass `{c_type}`")
            }
            TableError::Given(name) => write!(f, "the author's word for `{name}` is not in it"),
        }
    }
}

/// An error, and the number of its line in the table, from 1.
pub(crate) type Wrong = (usize, TableError);

/// Returns the content of a table.
///
/// # Panics
/// Panics if the table has an error.
pub(crate) fn read<T>(file: &str, read: Result<T, Wrong>) -> T {
    read.unwrap_or_else(|(line, why)| panic!("src/calls/tables/{file}:{line}: {why}"))
}

/// Reads the lines of a table, without empty lines and comments: whether each is indented, and its text.
pub(crate) fn each_line(
    text: &'static str,
    mut read: impl FnMut(bool, &'static str) -> Result<(), TableError>,
) -> Result<(), Wrong> {
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.try_for_each(|(index, line)| {
        read(line.starts_with(' '), line.trim()).map_err(|why| (index + 1, why))
    })
}

pub(crate) fn number(text: &'static str) -> Result<i64, TableError> {
    let text = text.trim();
    let read = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| TableError::Word(text, "is not a number"))
}

pub(crate) fn parse_small<T: TryFrom<i64>>(text: &'static str) -> Result<T, TableError> {
    T::try_from(number(text)?).map_err(|_| TableError::Word(text.trim(), "is out of range"))
}

/// Parses `12.3` into the form of `CUDA_VERSION`.
pub(crate) fn version(text: &'static str) -> Result<u32, TableError> {
    let (major, minor) = text
        .split_once('.')
        .ok_or(TableError::Word(text, "is not a version"))?;
    Ok(parse_small::<u32>(major)? * 1000 + parse_small::<u32>(minor)? * 10)
}

pub(crate) fn name(text: &'static str) -> Result<&'static str, TableError> {
    let is_name = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name {
        Ok(text)
    } else {
        Err(TableError::Word(text, "is not a name"))
    }
}
