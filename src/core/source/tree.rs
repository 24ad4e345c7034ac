//! The TOML document as a tree in the order of the file. Every part knows its place.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// The place of a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    /// The bytes of the part.
    pub span: Range<usize>,
    /// For the value of a parameter: where `${parameter}` is written.
    pub used: Option<Range<usize>>,
}

impl SourceSpan {
    /// The place of these bytes of the text.
    pub fn at(span: Range<usize>) -> SourceSpan {
        SourceSpan { span, used: None }
    }

    /// Where a step or check uses the part, in bytes of the text, for its line number.
    pub fn start(&self) -> usize {
        self.used.as_ref().unwrap_or(&self.span).start
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub data: Data,
    /// Its place.
    pub place: SourceSpan,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A text.
    Text(String),
    /// An integer.
    Int(i64),
    /// A flag.
    Bool(bool),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Vec<TreeEntry>),
    /// A value that the format does not use, with the name of its type.
    Other(&'static str),
}

/// A key of a table and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeEntry {
    /// Its key.
    pub key: TreeKey,
    /// The value of the key.
    pub value: Node,
}

/// A key and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeKey {
    /// The name of the key.
    pub text: String,
    /// Its place.
    pub place: SourceSpan,
}

impl Data {
    /// The name of the type, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Data::Text(_) => "text",
            Data::Int(_) => "an integer",
            Data::Bool(_) => "true or false",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
            Data::Other(word) => word,
        }
    }
}

/// The entries of a document or table, in the order of the file.
pub fn entries(table: &DeTable<'_>) -> Vec<TreeEntry> {
    let mut entries: Vec<TreeEntry> = table
        .iter()
        .map(|(key, value)| {
            let key = TreeKey {
                text: key.get_ref().to_string(),
                place: SourceSpan::at(key.span()),
            };
            TreeEntry {
                key,
                value: node(value),
            }
        })
        .collect();
    entries.sort_by_key(|entry| entry.key.place.span.start);
    entries
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let data = match value.get_ref() {
        DeValue::String(text) => Data::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Data::Int(integer),
            Err(_) => Data::Other("a number of more than 64 bits"),
        },
        DeValue::Boolean(value) => Data::Bool(*value),
        DeValue::Float(_) => Data::Other("a number with a fraction"),
        DeValue::Datetime(_) => Data::Other("a date"),
        DeValue::Array(values) => Data::List(values.iter().map(node).collect()),
        DeValue::Table(table) => Data::Table(entries(table)),
    };
    Node {
        data,
        place: SourceSpan::at(value.span()),
    }
}

/// A table that was parsed elsewhere, as a node. All of its parts get the place of the table.
pub fn table_at(table: &Table, place: &SourceSpan) -> Node {
    let entries = table.iter().map(|(key, value)| TreeEntry {
        key: TreeKey {
            text: key.clone(),
            place: place.clone(),
        },
        value: value_at(value, place),
    });
    Node {
        data: Data::Table(entries.collect()),
        place: place.clone(),
    }
}

fn value_at(value: &Value, place: &SourceSpan) -> Node {
    let data = match value {
        Value::String(text) => Data::Text(text.clone()),
        Value::Integer(integer) => Data::Int(*integer),
        Value::Boolean(value) => Data::Bool(*value),
        Value::Float(_) => Data::Other("a number with a fraction"),
        Value::Datetime(_) => Data::Other("a date"),
        Value::Array(values) => {
            Data::List(values.iter().map(|value| value_at(value, place)).collect())
        }
        Value::Table(table) => return table_at(table, place),
    };
    Node {
        data,
        place: place.clone(),
    }
}
