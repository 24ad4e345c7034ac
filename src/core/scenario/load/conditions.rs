//! Checks the conditions that an expectation has on the machine.

use std::ops::Range;

use super::diagnostic::suggest_name;
use super::parameters::{Parameters, check_scalar};
use super::reader::Reader;
use crate::scenario::When;

/// Checks that a condition requires only parameter values that the file has.
pub(super) fn check_when(
    reader: &mut Reader<'_>,
    when: &When,
    place: &Range<usize>,
    parameters: &Parameters<'_>,
) {
    if parameters.are_wrong {
        return;
    }
    for (name, values) in &when.parameters {
        let Some(known) = parameters.values(name) else {
            let help = suggest_name(name, parameters.names());
            reader.error(place, format!("unknown parameter `{name}`"), help);
            continue;
        };
        for value in values {
            check_scalar(reader, value, place);
            if known.contains(&value) {
                continue;
            }
            let message = format!("`{name}` never has the value `{value}`");
            let names: Vec<String> = known.iter().map(ToString::to_string).collect();
            let help = suggest_name(&value.to_string(), names.iter().map(String::as_str));
            reader.error(place, message, help);
        }
    }
}
