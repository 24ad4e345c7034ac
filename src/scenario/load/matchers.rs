//! Matchers: what a value is compared with.

use super::arguments::bytes;
use super::reader::Reader;
use super::tree::{Data, Entry, Node};
use crate::scenario::{Matcher, Operand, size};

/// What kind of value is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Integers and text.
    Anything,
    /// A number of bytes, or a change in one.
    Bytes,
}

/// An operand in place of `{ eq = operand }`, or a table of bounds.
pub(super) fn matcher(reader: &mut Reader<'_>, node: &Node, of: Of) -> Option<Matcher> {
    if !matches!(node.data, Data::Table(_)) {
        return operand(reader, node, of).map(Matcher::equal);
    }
    let entries = reader.table_of(node, &["eq", "ne", "ge", "le", "gt", "lt"])?;
    if entries.is_empty() {
        reader.error(&node.place, "this compares with nothing", Some("such as `{ ge = 1 }`".to_string()));
    }
    let mut matcher = Matcher::default();
    for Entry { key, value } in entries {
        let operand = operand(reader, value, of);
        match key.text.as_str() {
            "eq" => matcher.eq = operand,
            "ne" => matcher.ne = operand,
            "ge" => matcher.ge = operand,
            "le" => matcher.le = operand,
            "gt" => matcher.gt = operand,
            "lt" => matcher.lt = operand,
            _ => {}
        }
    }
    Some(matcher)
}

fn operand(reader: &mut Reader<'_>, node: &Node, of: Of) -> Option<Operand> {
    match &node.data {
        Data::Int(value) => Some(Operand::Int(*value)),
        Data::Text(text) => match reference(text) {
            Some((label, name)) => Some(Operand::Value { label: label.to_string(), name: name.to_string() }),
            None if text.starts_with('@') => {
                let help = Some("write `@label.name`".to_string());
                reader.error(&node.place, format!("`{text}` names no value of a step"), help);
                None
            }
            None if of == Of::Bytes || size::looks_like_bytes(text) => bytes(reader, node).map(Operand::Int),
            None => Some(Operand::Text(text.clone())),
        },
        Data::Bool(value) => {
            let help = Some(format!("C has integers for these: write {}", i32::from(*value)));
            reader.error(&node.place, "expected an integer or text, found true or false", help);
            None
        }
        data => {
            reader.error(&node.place, format!("expected an integer or text, found {}", data.kind()), None);
            None
        }
    }
}

/// The label and the value's name in `@label.name`. The last dot divides, as names of values have none.
pub(super) fn reference(text: &str) -> Option<(&str, &str)> {
    let (label, name) = text.strip_prefix('@')?.rsplit_once('.')?;
    (!label.is_empty() && !name.is_empty()).then_some((label, name))
}
