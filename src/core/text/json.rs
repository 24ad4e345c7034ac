//! JSON that people read too: a value that fits on one line is written on one line.

use serde_json::Value;

const LONGEST: usize = 500;

/// Returns a document with a newline at the end. A value that does not fit on a line has a line for each of its parts;
/// lists of plain values stay on one line.
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0, 0);
    out + "\n"
}

/// Writes a value on a line that already has `before` columns.
fn write(out: &mut String, value: &Value, indent: usize, before: usize) {
    let (open, close, parts): (char, char, Vec<(String, &Value)>) = match value {
        Value::Object(parts) => (
            '{',
            '}',
            parts
                .iter()
                .map(|(key, part)| (format!("{}: ", Value::from(key.as_str())), part))
                .collect(),
        ),
        Value::Array(parts) if parts.iter().any(|part| part.is_object() || part.is_array()) => (
            '[',
            ']',
            parts.iter().map(|part| (String::new(), part)).collect(),
        ),
        plain => return out.push_str(&on_one_line(plain)),
    };
    let short = on_one_line(value);
    if before + short.len() <= LONGEST {
        return out.push_str(&short);
    }
    let (step, last) = (" ".repeat(indent + 1), parts.len().saturating_sub(1));
    out.push(open);
    for (index, (key, part)) in parts.into_iter().enumerate() {
        out.push_str(&format!("\n{step}{key}"));
        write(out, part, indent + 1, indent + 1 + key.len());
        out.push_str(if index < last { "," } else { "" });
    }
    out.push_str(&format!("\n{}{close}", " ".repeat(indent)));
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(parts) if !parts.is_empty() => {
            let parts = parts
                .iter()
                .map(|(key, it)| format!("{}: {}", Value::from(key.as_str()), on_one_line(it)));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        }
        Value::Array(parts) => format!(
            "[{}]",
            parts.iter().map(on_one_line).collect::<Vec<_>>().join(", ")
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_on_one_line_and_all_of_it_is_there() {
        let long = "x".repeat(300);
        let value = serde_json::json!({
            "a": { "b": [1, 2], "c": {} }, "d\"": [{ "e": long }, { "f": long }], "g": [long, long], "h": null,
        });
        let text = document(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "{",
                " \"a\": { \"b\": [1, 2], \"c\": {} },",
                " \"d\\\"\": ["
            ]
        );
        assert_eq!(lines.len(), 9, "{text}");
    }
}
