//! Who is expected to report, by name.

use std::collections::BTreeMap;

/// Names of machines, one a line: `#` begins a comment, and `node/` before a name is what `kubectl get nodes -o name`
/// prints.
///
/// # Errors
/// The line of a name that is there twice or has whitespace in it, or that there is none.
pub fn names(text: &str) -> Result<Vec<String>, String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let name = line.split('#').next().unwrap_or_default().trim();
        let name = name.strip_prefix("node/").unwrap_or(name);
        if name.is_empty() {
            continue;
        }
        if name.contains(char::is_whitespace) {
            return Err(format!("line {number}: one name a line"));
        }
        if let Some(first) = lines.insert(name, number) {
            return Err(format!(
                "line {number}: `{name}` is on line {first} already"
            ));
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        Err("there is no name in it".to_owned())
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
            names("a\nb\na").unwrap_err(),
            "line 3: `a` is on line 1 already"
        );
        assert_eq!(
            names("a\nnode/a").unwrap_err(),
            "line 2: `a` is on line 1 already"
        );
        assert_eq!(names("a b").unwrap_err(), "line 1: one name a line");
        assert_eq!(names("# none\n").unwrap_err(), "there is no name in it");
    }
}
