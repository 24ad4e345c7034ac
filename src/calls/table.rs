//! Reading a table line by line. The tables are a part of the program, so that what is wrong in one
//! ends it, with the file and the line; a unit test reads them all.

/// What is wrong, and in which line of the table, from 1.
pub(crate) type Wrong = (usize, String);

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

pub(crate) fn number(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let read = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| format!("`{text}` is no number"))
}

pub(crate) fn small<T: TryFrom<i64>>(text: &str) -> Result<T, String> {
    T::try_from(number(text)?).map_err(|_| format!("`{}` is out of range", text.trim()))
}

/// `12.3` as `CUDA_VERSION` has it.
pub(crate) fn version(text: &str) -> Result<u32, String> {
    let (major, minor) = text.split_once('.').ok_or_else(|| format!("`{text}` is no version"))?;
    Ok(small::<u32>(major)? * 1000 + small::<u32>(minor)? * 10)
}

pub(crate) fn name(text: &'static str) -> Result<&'static str, String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok(text) } else { Err(format!("`{text}` is no name")) }
}
