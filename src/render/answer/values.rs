//! The answer of a question for each value of its parameters.

use cuda_pitfalls_core::report::ScenarioView;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::display_columns;

/// Returns the values of an instance: `cudaFree` of `…[call=cudaFree]`, and `a=1,b=2` if there are several.
pub(crate) fn parameter_values(report: &ScenarioView<'_>) -> String {
    let inner = report
        .name
        .strip_prefix(report.scenario)
        .unwrap_or_default();
    let inner = inner
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(inner);
    match report.parameters.keys().next() {
        Some(only) if report.parameters.len() == 1 => inner
            .strip_prefix(&format!("{only}="))
            .unwrap_or(inner)
            .to_owned(),
        _ => inner.to_owned(),
    }
}

/// Returns lists of values, each after its heading, on one line of at most `room` columns. The longest lists are
/// truncated, and end with the number of values left out.
pub(super) fn line(parts: &[(String, Vec<String>)], room: usize) -> String {
    let mut shown: Vec<usize> = parts.iter().map(|(_, values)| values.len()).collect();
    loop {
        let line = written(parts, &shown);
        let longest = shown
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 1)
            .max_by_key(|(_, count)| **count);
        match longest {
            Some((index, _)) if display_columns(&line) > room => {
                if let Some(count) = shown.get_mut(index) {
                    *count -= 1;
                }
            }
            _ => return line,
        }
    }
}

fn written(parts: &[(String, Vec<String>)], shown: &[usize]) -> String {
    let lists = parts.iter().zip(shown).map(|((head, values), shown)| {
        let mut list: Vec<String> = values
            .iter()
            .take(*shown)
            .map(|value| said(value))
            .collect();
        if values.len() > *shown {
            list.push(format!("and {} more", values.len() - shown));
        }
        format!("{head} {}", list.join(", "))
    });
    lists.collect::<Vec<_>>().join("; ")
}

/// Returns a value as an item of a list: an empty value, or one with a comma or a space, is quoted.
fn said(value: &str) -> String {
    let value = terminal(value);
    if value.is_empty() || value.contains([',', ' ', ';']) {
        format!("\"{value}\"")
    } else {
        value
    }
}
