//! Integers that have names in a C header: a scenario may write either.

use std::sync::LazyLock;

use crate::parse;

/// A named set of C constants.
#[derive(Debug)]
pub struct Constants {
    /// What help calls it, usually a C type.
    pub name: &'static str,
    /// The C types of parameters that take one of it.
    pub types: Vec<&'static str>,
    /// The names and their values, in header order.
    pub values: Vec<(&'static str, i64)>,
}

impl Constants {
    /// The value of a C name.
    pub fn value(&self, name: &str) -> Option<i64> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Every set.
    pub fn all() -> &'static [Constants] {
        static ALL: LazyLock<Vec<Constants>> =
            LazyLock::new(|| parse::read("constants.txt", parse::constants(include_str!("../tables/constants.txt"))));
        &ALL
    }

    /// A set by its name.
    pub(crate) fn find(name: &str) -> Option<&'static Constants> {
        Constants::all().iter().find(|set| set.name == name)
    }
}

fn known(name: &str) -> &'static Constants {
    Constants::find(name).unwrap_or_else(|| panic!("constants.txt has no `{name}`"))
}

/// Streams that need not be made, `driver_types.h`.
pub static BUILT_IN_STREAMS: LazyLock<&Constants> = LazyLock::new(|| known("stream"));

/// What a worker may open with `dlopen`, by place in this list.
pub static LIBRARY_FILES: LazyLock<&Constants> = LazyLock::new(|| known("library file"));

/// Signals by their Linux numbers (x86-64 and aarch64).
pub static SIGNALS: LazyLock<&Constants> = LazyLock::new(|| known("signal"));
