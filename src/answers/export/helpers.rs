//! Functions that a reproducer contains if it uses them, and filled lines.

/// Joins pieces into lines, as many pieces on a line as fit.
pub(super) fn fill_lines(pieces: impl Iterator<Item = String>, width: usize, end: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if line.len() + piece.len() < width => {
                line.push(' ');
                line.push_str(&piece);
            }
            _ => lines.push(format!("    {piece}")),
        }
    }
    lines.join(end)
}

pub(super) fn is_used(text: &str, call: &str) -> bool {
    text.match_indices(call).any(|(at, _)| {
        !text
            .split_at(at)
            .0
            .ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.')
    })
}

/// Returns the functions, macros and constants of a file that a text uses, with `gap` before each function. A helper
/// may use the helpers before it.
pub(super) fn used_helpers(file: &str, text: &str, gap: &str) -> String {
    let mut used = String::new();
    for helper in file
        .trim_end()
        .split("\n\n\n")
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let mut lines = helper.lines();
        let head = lines.find(|line| {
            ["static ", "def "]
                .iter()
                .any(|start| line.starts_with(start))
        });
        let function = head.and_then(|line| line.split_once('('));
        let name = match (function, helper.strip_prefix("#define ")) {
            (Some((head, _)), _) => {
                format!("{}(", head.rsplit([' ', '*']).next().unwrap_or_default())
            }
            (None, Some(text)) => text
                .split_inclusive([' ', '('])
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
            (None, None) => helper
                .lines()
                .last()
                .and_then(|line| line.split(' ').next())
                .unwrap_or_default()
                .to_owned(),
        };
        if is_used(text, &name) || is_used(&used, &name) {
            let gap = if function.is_some() { gap } else { "" };
            used.insert_str(0, &format!("{gap}{helper}\n"));
        }
    }
    used
}
