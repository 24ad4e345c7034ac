//! Integers with names in a C header. A scenario may write the number or the name.

use std::sync::LazyLock;

use crate::table::{self, TableError, Wrong, each_line, number};

/// A named group of C constants.
#[derive(Debug)]
pub struct Constants {
    /// The name of the group in help texts, usually a C type.
    pub name: &'static str,
    /// The C types of the parameters that take these constants.
    pub types: Vec<&'static str>,
    /// The names and their values, in header order.
    pub values: Vec<(&'static str, i64)>,
}

impl Constants {
    /// Returns the value of a C name.
    pub fn value(&self, name: &str) -> Option<i64> {
        self.values
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }

    /// Returns every group.
    pub fn all() -> &'static [Constants] {
        static ALL: LazyLock<Vec<Constants>> = LazyLock::new(|| {
            table::read(
                "constants.txt",
                parse_constants(include_str!("tables/constants.txt")),
            )
        });
        &ALL
    }

    /// Returns a group by its name.
    pub(crate) fn find(name: &str) -> Option<&'static Constants> {
        Constants::all().iter().find(|set| set.name == name)
    }
}

/// Parses groups of constants: a line with the name and the C types, then an indented line per constant.
fn parse_constants(text: &'static str) -> Result<Vec<Constants>, Wrong> {
    let mut sets: Vec<Constants> = Vec::new();
    each_line(text, |indented, said| {
        if !indented {
            let (name, types) =
                said.split_once(": ")
                    .map_or((said, Vec::new()), |(name, types)| {
                        let types = types.split(", ").collect();
                        (name, types)
                    });
            sets.push(Constants {
                name,
                types,
                values: Vec::new(),
            });
            return Ok(());
        }
        let (name, value) = said
            .split_once(" = ")
            .ok_or(TableError::Line("expected `name = value`"))?;
        let set = sets
            .last_mut()
            .ok_or(TableError::Line("a constant outside any set"))?;
        set.values.push((name, number(value)?));
        Ok(())
    })?;
    Ok(sets)
}
fn known(name: &str) -> &'static Constants {
    Constants::find(name).unwrap_or_else(|| panic!("constants.txt has no `{name}`"))
}

/// Streams that exist without being created, from `driver_types.h`.
pub static BUILT_IN_STREAMS: LazyLock<&Constants> = LazyLock::new(|| known("stream"));

/// Files that a worker may open with `dlopen`, by index in this list.
pub static LIBRARY_FILES: LazyLock<&Constants> = LazyLock::new(|| known("library file"));

/// Errors by their Linux numbers (x86-64 and aarch64).
pub static ERRNOS: LazyLock<&Constants> = LazyLock::new(|| known("errno"));

/// Signals by their Linux numbers (x86-64 and aarch64).
pub static SIGNALS: LazyLock<&Constants> = LazyLock::new(|| known("signal"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_belongs_to_a_set() {
        assert!(
            parse_constants("    X = 1")
                .unwrap_err()
                .1
                .to_string()
                .contains("outside any set")
        );
    }
}
