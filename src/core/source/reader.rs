//! Reading typed values from the tree, and collecting errors.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::diagnostic::{Diagnostic, did_you_mean, suggest_name};
use super::size;
use super::tree::{Data, Node, TreeEntry};

/// Maximum number of reported errors. More do not help, and each costs a search for a suggestion and a search of the
/// entire file.
pub const MOST_ERRORS: usize = 100;

/// The file being read and its errors so far. A method that returns `None` has reported why.
pub struct Reader<'a> {
    /// The name of the file in messages.
    pub file: &'a str,
    /// The text of the file.
    pub source: &'a str,
    /// The kernels that a step can load.
    pub kernels: &'a [&'a str],
    /// The errors so far.
    pub errors: Vec<Diagnostic>,
    /// The span and the message of each error.
    seen: HashSet<(usize, usize, String)>,
    /// Places of unknown parameters. Their values are unknown, so nothing more is reported about these places.
    pub unfilled: Vec<Range<usize>>,
    /// The uses of parameter values, each with the location of the value.
    pub filled: Vec<(Range<usize>, Range<usize>)>,
    /// The end of each line. Every step stores its line, and counting from the top each time would take most of the
    /// time.
    line_ends: Vec<usize>,
}

impl<'a> Reader<'a> {
    /// Returns a reader without errors. `kernels` are the names that a `ptx` argument can have.
    pub fn new(file: &'a str, source: &'a str, kernels: &'a [&'a str]) -> Reader<'a> {
        let line_ends = source
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(at, _)| at)
            .collect();
        Reader {
            file,
            source,
            kernels,
            errors: Vec::new(),
            seen: HashSet::new(),
            unfilled: Vec::new(),
            filled: Vec::new(),
            line_ends,
        }
    }

    /// Parses the file as a table, at the location of its first key. `None` if it is too large or not TOML: a partial
    /// table would lack the parts with errors, and cause more of them. `subject` begins a sentence.
    pub fn parse_table(
        &mut self,
        subject: &str,
        most_bytes: usize,
    ) -> Option<Spanned<DeValue<'a>>> {
        let source = self.source;
        if source.len() > most_bytes {
            let message = format!("{subject} has at most {} KiB", most_bytes >> 10);
            return self.reject(&(0..0), message, None);
        }
        let (table, errors) = DeTable::parse_recoverable(source);
        for error in &errors {
            let end = source.len()..source.len();
            self.error(&error.span().unwrap_or(end), error.message(), None);
        }
        if !errors.is_empty() {
            return None;
        }
        let keys = table.get_ref().keys().map(Spanned::span);
        let first = keys.min_by_key(|key| key.start).unwrap_or(0..0);
        Some(Spanned::new(first, DeValue::Table(table.into_inner())))
    }

    /// Reads a part of the file as a type; reports its first error.
    pub fn read_typed<T: DeserializeOwned>(&mut self, part: Spanned<DeValue<'_>>) -> Option<T> {
        let place = part.span();
        let error = match T::deserialize(ValueDeserializer::from(part)) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let (message, help) = describe_error(error.message());
        self.reject(&error.span().unwrap_or(place), message, help)
    }

    /// Returns the result, or all errors of the file, in its order.
    ///
    /// # Errors
    /// Returns the errors of the file.
    pub fn finish<T>(self, read: Option<T>) -> Result<T, Vec<Diagnostic>> {
        let mut errors = self.errors;
        errors.sort_by(|a, b| {
            (a.span.start, a.span.end, &a.message).cmp(&(b.span.start, b.span.end, &b.message))
        });
        match read {
            Some(read) if errors.is_empty() => Ok(read),
            _ => Err(errors),
        }
    }

    /// Adds an error at a place, with a suggestion.
    pub fn error(
        &mut self,
        place: &Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.push(place, message.into(), help, None);
    }

    /// Adds an error that another place explains.
    pub fn error_with(
        &mut self,
        place: &Range<usize>,
        message: impl Into<String>,
        other: &Range<usize>,
        label: &str,
    ) {
        let context = Some((other.clone(), label.to_string()));
        self.push(place, message.into(), None, context);
    }

    /// Adds an error. An error in the value of a parameter is reported at the location where the value is written.
    fn push(
        &mut self,
        place: &Range<usize>,
        message: String,
        help: Option<String>,
        context: Option<(Range<usize>, String)>,
    ) {
        let value = self.filled.iter().find(|(used, _)| used == place);
        let used_here = value.map(|(used, _)| (used.clone(), "used here".to_string()));
        let diagnostic = Diagnostic {
            file: self.file.to_string(),
            span: value.map_or(place, |(_, written)| written).clone(),
            message,
            help,
            context: context.or(used_here),
        };
        // The instances of a scenario have the same errors.
        let known = (
            diagnostic.span.start,
            diagnostic.span.end,
            diagnostic.message.clone(),
        );
        if self.is_full() || self.unfilled.contains(&diagnostic.span) || !self.seen.insert(known) {
            return;
        }
        self.errors.push(diagnostic);
        if self.errors.len() == MOST_ERRORS {
            let message = format!("more than {MOST_ERRORS} errors: the others are not shown");
            let file = self.file.to_string();
            self.errors.push(Diagnostic {
                file,
                span: place.clone(),
                message,
                help: None,
                context: None,
            });
        }
    }

    /// Returns `true` if no more errors are kept, because there are too many. Searching for suggestions is then
    /// superfluous.
    pub fn is_full(&self) -> bool {
        self.errors.len() > MOST_ERRORS
    }

    /// Returns the line number of a part of the file.
    pub fn line(&self, at: &Range<usize>) -> u32 {
        let before = self.line_ends.partition_point(|end| *end < at.start);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// Adds an error as [`Reader::error`] does, and returns `None`.
    pub fn reject<T>(
        &mut self,
        place: &Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Option<T> {
        self.error(place, message, help);
        None
    }

    pub(crate) fn reject_type<T>(&mut self, node: &Node, wanted: &str) -> Option<T> {
        self.reject(
            &node.place,
            format!("expected {wanted}, found {}", node.data.kind()),
            None,
        )
    }

    /// Returns the text of a node; reports an error for any other value.
    pub fn text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.data {
            Data::Text(text) => Some(text),
            Data::Int(value) => {
                let help = Some(format!("write `\"{value}\"`"));
                self.reject(&node.place, "expected text, found an integer", help)
            }
            _ => self.reject_type(node, "text"),
        }
    }

    /// Reads text that is not empty.
    pub fn sentence(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        if text.trim().is_empty() {
            return self.reject(&node.place, "this is empty", None);
        }
        Some(text.to_string())
    }

    /// Reads text that is one of `words`.
    pub fn word<'w>(&mut self, node: &Node, noun: &str, words: &[&'w str]) -> Option<&'w str> {
        let text = self.text(node)?;
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            self.error(
                &node.place,
                format!("unknown {noun} `{text}`"),
                suggest_name(text, words.iter().copied()),
            );
        }
        found
    }

    /// Reads a name that the author makes up.
    pub fn name<'n>(&mut self, node: &'n Node, noun: &str) -> Option<&'n str> {
        let text = self.text(node)?;
        self.check_name(text, &node.place, noun)
    }

    /// Returns the text, if the author may make up such a name.
    pub fn check_name<'n>(
        &mut self,
        text: &'n str,
        place: &Range<usize>,
        noun: &str,
    ) -> Option<&'n str> {
        if !is_name(text) {
            let help = Some("use letters, digits, `_` and `-`".to_string());
            let message = format!("`{text}` is not a valid name for a {noun}");
            return self.reject(place, message, help);
        }
        Some(text)
    }

    /// Returns the integer of a node, within a range; reports an error for any other value.
    pub fn read_integer(&mut self, node: &Node, range: RangeInclusive<i64>) -> Option<i64> {
        match &node.data {
            Data::Int(value) if range.contains(value) => Some(*value),
            Data::Int(value) => {
                let (least, most) = (range.start(), range.end());
                let message = match *most {
                    i64::MAX => format!("{value} is less than {least}"),
                    _ => format!("{value} is not in {least} to {most}"),
                };
                self.error(&node.place, message, None);
                None
            }
            Data::Text(text) if text.trim().parse::<i64>().is_ok() => {
                let help = Some(format!("write `{}` without quotes", text.trim()));
                self.reject(&node.place, "expected an integer, found text", help)
            }
            _ => self.reject_type(node, "an integer"),
        }
    }

    /// Reads a number of bytes: an integer, or text with a unit.
    pub fn bytes(&mut self, node: &Node) -> Option<i64> {
        match &node.data {
            Data::Text(text) => match size::bytes(text) {
                Ok(bytes) => Some(bytes),
                Err(wrong) => self.reject(&node.place, wrong.message, Some(wrong.help)),
            },
            _ => self.read_integer(node, 0..=i64::MAX),
        }
    }

    /// Returns the flag of a node; reports an error for any other value.
    pub fn read_boolean(&mut self, node: &Node) -> Option<bool> {
        match node.data {
            Data::Bool(value) => Some(value),
            _ => self.reject_type(node, "true or false"),
        }
    }

    /// Returns the parts of a list; reports an error for any other value.
    pub fn list<'n>(&mut self, node: &'n Node) -> Option<&'n [Node]> {
        match &node.data {
            Data::List(nodes) => Some(nodes),
            _ => self.reject_type(node, "a list"),
        }
    }

    /// Returns the parts of a list, or a single value as a list of one.
    pub fn one_or_more<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.data {
            Data::List(nodes) => {
                if nodes.is_empty() {
                    self.error(&node.place, "this list is empty", None);
                }
                nodes
            }
            _ => std::slice::from_ref(node),
        }
    }

    /// Returns the entries of a table; reports an error for any other value.
    pub fn table<'n>(&mut self, node: &'n Node) -> Option<&'n [TreeEntry]> {
        match &node.data {
            Data::Table(entries) => Some(entries),
            _ => self.reject_type(node, "a table"),
        }
    }

    /// Returns the entries of a table that may have only these keys.
    pub fn table_of<'n>(&mut self, node: &'n Node, keys: &[&str]) -> Option<&'n [TreeEntry]> {
        let entries = self.table(node)?;
        for TreeEntry { key, .. } in entries {
            if !keys.contains(&key.text.as_str()) && !self.is_full() {
                let help = suggest_name(&key.text, keys.iter().copied());
                self.error(&key.place, format!("unknown key `{}`", key.text), help);
            }
        }
        Some(entries)
    }

    /// Returns `true` if another key was already reported as a misspelling of this one, so that its absence is not
    /// reported too.
    pub fn is_misspelled(&self, entries: &[TreeEntry], key: &str) -> bool {
        let meant = Some(did_you_mean(key));
        entries.iter().any(|entry| {
            self.errors
                .iter()
                .any(|error| error.span == entry.key.place && error.help == meant)
        })
    }
}

/// The names of types in serde's errors, and in the other errors.
const TYPES: [(&str, &str); 5] = [
    ("string \"$__toml_private_datetime\"", "a date"),
    ("a sequence", "a list"),
    ("a string", "text"),
    ("type: map", "type: a table"),
    ("u32", "an integer"),
];

/// Rewrites an error of serde in the terms of the other errors. Also returns a suggestion.
fn describe_error(message: &str) -> (String, Option<String>) {
    if let Some(types) = message.strip_prefix("invalid ") {
        let mut said = format!("invalid {types}");
        for (word, ours) in TYPES {
            said = said.replace(word, ours);
        }
        let number = said.strip_prefix("invalid type: integer `");
        let number = number.and_then(|rest| rest.strip_suffix("`, expected text"));
        let help = number.map(|number| format!("write `\"{number}\"`"));
        return (said, help);
    }
    let mut words = message.split('`');
    let (Some(start), Some(word)) = (words.next(), words.next()) else {
        return (message.to_string(), None);
    };
    let known: Vec<&str> = words.skip(1).step_by(2).collect();
    match start {
        "unknown field " => (format!("unknown key `{word}`"), suggest_name(word, known)),
        "unknown variant " => (format!("unknown word `{word}`"), suggest_name(word, known)),
        "missing field " => (format!("`{word}` is missing"), None),
        _ => (message.to_string(), None),
    }
}

/// Returns the value of a key.
pub fn get<'n>(entries: &'n [TreeEntry], key: &str) -> Option<&'n Node> {
    entries
        .iter()
        .find(|entry| entry.key.text == key)
        .map(|entry| &entry.value)
}

/// Returns `true` if a text can be a label, a tag or the name of a handle.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Returns the first `${name}` of a text: the text before it, the name, and the rest.
pub fn split_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once("${")?;
    let (name, rest) = after.split_once('}')?;
    Some((before, name, rest))
}

/// Returns `true` if a text is a plan's name of a GPU: `gpu0` to `gpu63`.
pub fn is_gpu(text: &str) -> bool {
    let Some(digits) = text.strip_prefix("gpu") else {
        return false;
    };
    let canonical = digits == "0" || !digits.starts_with('0');
    canonical
        && digits.bytes().all(|b| b.is_ascii_digit())
        && digits.parse::<u32>().is_ok_and(|n| n < 64)
}

/// Returns the comment lines at the beginning of a file, joined.
pub fn opening_comment(source: &str) -> String {
    let comments = source.lines().map_while(|line| line.strip_prefix('#'));
    // Comments such as `#:schema` are for editors.
    let comments = comments
        .filter(|line| !line.starts_with(':'))
        .map(str::trim);
    comments.collect::<Vec<_>>().join(" ").trim().to_string()
}
