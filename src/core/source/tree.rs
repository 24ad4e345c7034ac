//! A part of a file with the same keys as the program's tables: a tree in the order of the file. Every part records its
//! location, in bytes of the text.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub data: Data,
    /// The location of the key.
    pub place: Range<usize>,
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
    /// The key of the entry.
    pub key: TreeKey,
    /// The value of the key.
    pub value: Node,
}

/// A key and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeKey {
    /// The name of the key.
    pub text: String,
    /// The location of the node.
    pub place: Range<usize>,
}

impl Data {
    /// Returns the name of the type, for messages.
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

impl Node {
    /// Returns the entries of a table; no entries for any other value.
    pub fn entries(&self) -> &[TreeEntry] {
        match &self.data {
            Data::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Sets a key of a table to a text, and replaces any previous value.
    pub fn put_text(&mut self, key: &str, text: String) {
        drop(self.take_value(key));
        let place = self.place.clone();
        if let Data::Table(entries) = &mut self.data {
            let key = TreeKey {
                text: key.to_string(),
                place: place.clone(),
            };
            let data = Data::Text(text);
            let value = Node { data, place };
            entries.push(TreeEntry { key, value });
        }
    }

    /// Removes a key from a table, and returns its value.
    pub fn take_value(&mut self, key: &str) -> Option<Node> {
        let Data::Table(entries) = &mut self.data else {
            return None;
        };
        let index = entries.iter().position(|entry| entry.key.text == key)?;
        Some(entries.remove(index).value)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Node, D::Error> {
        let node = Spanned::<Data>::deserialize(file)?;
        let place = node.span();
        Ok(Node {
            data: node.into_inner(),
            place,
        })
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Data, D::Error> {
        file.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Data, E> {
        Ok(Data::Text(text.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Int(value))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Data, E> {
        Ok(Data::Other("a number of more than 64 bits"))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Data, E> {
        Ok(Data::Other("a number of more than 64 bits"))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Bool(value))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Data, E> {
        Ok(Data::Other("a number with a fraction"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Data, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Data::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = table.next_entry::<Spanned<String>, Node>()? {
            let place = key.span();
            let key = TreeKey {
                text: key.into_inner(),
                place,
            };
            entries.push(TreeEntry { key, value });
        }
        entries.sort_by_key(|entry| entry.key.place.start);
        Ok(Data::Table(entries))
    }
}
