//! Names of the machines that are expected to report.

use std::collections::BTreeMap;

/// Error in a list of names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamesError {
    /// A line with several words.
    #[error("line {line}: expected one name per line")]
    Several {
        /// Number of the line, from 1.
        line: usize,
    },
    /// A name that occurs twice.
    #[error("line {line}: `{name}` is on line {first} already")]
    Twice {
        /// The number of the line with the second occurrence.
        line: usize,
        /// The name.
        name: String,
        /// The number of the line with the first occurrence.
        first: usize,
    },
    /// A list without any name.
    #[error("it contains no names")]
    Empty,
}

/// Parses names of machines, one name per line: `#` begins a comment, and a `node/` prefix, as printed by `kubectl get
/// nodes -o name`, is removed.
///
/// # Errors
/// Returns the line of a name that occurs twice or contains whitespace, or an error if the list is empty.
pub fn names(text: &str) -> Result<Vec<String>, NamesError> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = Vec::new();
    for (index, written) in text.lines().enumerate() {
        let line = index + 1;
        let plain = written.split('#').next().unwrap_or_default().trim();
        let name = plain.strip_prefix("node/").unwrap_or(plain);
        if name.is_empty() {
            continue;
        }
        if name.contains(char::is_whitespace) {
            return Err(NamesError::Several { line });
        }
        if let Some(first) = lines.insert(name, line) {
            let name = name.to_owned();
            return Err(NamesError::Twice { line, name, first });
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        Err(NamesError::Empty)
    } else {
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_a_line() {
        assert_eq!(
            names("# racks\ngpu-1\n\n node/gpu-2  # new\r\n").unwrap(),
            ["gpu-1", "gpu-2"]
        );
        assert_eq!(
            names("a\nb\na").unwrap_err().to_string(),
            "line 3: `a` is on line 1 already"
        );
        assert_eq!(
            names("a\nnode/a").unwrap_err().to_string(),
            "line 2: `a` is on line 1 already"
        );
        assert_eq!(
            names("a b").unwrap_err().to_string(),
            "line 1: expected one name per line"
        );
        assert_eq!(
            names("# none\n").unwrap_err().to_string(),
            "it contains no names"
        );
    }
}
