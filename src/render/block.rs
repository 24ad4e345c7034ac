//! The parts of a view. A view is a function from a document to blocks, and a [`super::writer`] turns blocks into text.
//!
//! Nothing in a block is escaped or broken into lines: only a writer knows which characters are special in its format,
//! and how wide it is.

use crate::svg::Chart;

/// A part of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// A heading and its level, from 1.
    Heading(usize, Text),
    Paragraph(Text),
    /// A warning that precedes everything else, such as SIMULATED.
    Banner(String),
    /// An opening in our own Markdown. It is for pages: a terminal leaves it out.
    Prose(&'static str),
    /// A text after a word for its type, such as `warning: `.
    Note(&'static str, Text),
    /// Counts, each in its color.
    Badges(Vec<(Tone, String)>),
    /// A name and its description.
    Fact(String, Text),
    List(Vec<Text>),
    Numbered(Vec<Text>),
    Table(Table),
    /// Lines of a language, whose name may be empty.
    Code(&'static str, Vec<String>),
    /// A summary, and blocks that a page shows when it is opened and a terminal shows below it.
    Fold(String, Vec<Block>),
    /// An event or a finding, with its details below.
    Entry(Entry),
    /// Blocks in a separate box on a page, with CSS classes and an anchor.
    Section {
        class: String,
        id: String,
        blocks: Vec<Block>,
    },
    /// Memory over time, for pages that can draw.
    Chart(Chart),
    /// A drawing for pages only: HTML elements in which everything is escaped.
    Drawn(String),
    /// Blocks that are too long for a terminal.
    OnPages(Vec<Block>),
    /// An empty line on a terminal.
    Gap,
}

impl Block {
    pub(crate) fn heading(level: usize, text: impl Into<Text>) -> Block {
        Block::Heading(level, text.into())
    }

    pub(crate) fn paragraph(text: impl Into<Text>) -> Block {
        Block::Paragraph(text.into())
    }

    pub(crate) fn note(word: &'static str, text: impl Into<Text>) -> Block {
        Block::Note(word, text.into())
    }

    pub(crate) fn fact(name: &str, text: impl Into<Text>) -> Block {
        Block::Fact(name.to_owned(), text.into())
    }

    pub(crate) fn list<T: Into<Text>>(items: impl IntoIterator<Item = T>) -> Block {
        Block::List(items.into_iter().map(T::into).collect())
    }

    /// Returns a paragraph with the number of entries that are left out; `None` if all are shown.
    pub(crate) fn more(all: usize, most: usize, what: &str) -> Option<Block> {
        let left = all.checked_sub(most).filter(|left| *left > 0)?;
        Some(Block::paragraph(Span::Toned(
            Tone::Dim,
            format!("… and {left} more {what}; the document contains them all."),
        )))
    }
}

/// A title with its details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// CSS classes on a page.
    pub(crate) class: String,
    /// The anchor on a page; empty if nothing links here.
    pub(crate) id: String,
    /// Empty if the page's own title says the same.
    pub(crate) title: Text,
    /// Text at the right on a terminal, such as the time of an event.
    pub(crate) aside: String,
    pub(crate) body: Vec<Block>,
}

/// Rows of cells below their columns' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) caption: String,
    /// The class on a page, if the rows are records: a terminal and a narrow page write the cells of each record below
    /// each other, with the column's name before all but the first.
    pub(crate) records: Option<&'static str>,
    /// The classes of each row on a page, if any.
    pub(crate) classes: Vec<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Text>>,
}

impl Table {
    pub(crate) fn new<C: Into<String>, T: Into<Text>>(
        columns: impl IntoIterator<Item = C>,
        rows: impl IntoIterator<Item = Vec<T>>,
    ) -> Table {
        let rows = rows
            .into_iter()
            .map(|cells| cells.into_iter().map(T::into).collect());
        Table {
            columns: columns.into_iter().map(C::into).collect(),
            rows: rows.collect(),
            ..Table::default()
        }
    }

    /// Rows that need no names above them.
    pub(crate) fn without_header<T: Into<Text>>(rows: impl IntoIterator<Item = Vec<T>>) -> Table {
        let mut table = Table::new([""; 0], rows);
        table.columns.resize(
            table.rows.iter().map(Vec::len).max().unwrap_or_default(),
            String::new(),
        );
        table
    }

    /// Returns a table of names and values.
    pub(crate) fn named(
        of: &str,
        rows: impl IntoIterator<Item = (impl Into<Text>, String)>,
    ) -> Table {
        Table::new(
            [of, ""],
            rows.into_iter()
                .map(|(name, value)| vec![name.into(), value.into()]),
        )
    }
}

/// Styled text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<Span>);

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Plain(String),
    Strong(String),
    Toned(Tone, String),
    /// Text to type. A terminal does not break it if it is alone on its line.
    Code(String),
    /// A target that begins with `#` is an anchor of the same page; Markdown has no such anchors, so it shows the text.
    Link {
        text: String,
        to: String,
    },
    /// A summary, and texts below it: hidden on a page until it is opened, and appended by other writers.
    Fold(String, Vec<Text>),
    /// The end of a line.
    Break,
    /// A color of the charts, by its number, on a page.
    Chip(usize),
    /// Two bars on a page, in percent of their scale; one of more than 100 is drawn with a gap.
    Bars([u64; 2]),
}

/// Meaning of a part of a text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Less important than the rest.
    Dim,
    Plain,
    Good,
    /// A pitfall that shows.
    Shows,
    Doubt,
    Bad,
}

impl Text {
    pub(crate) fn code(text: impl Into<String>) -> Text {
        Text(vec![Span::Code(text.into())])
    }

    /// Texts below each other.
    pub(crate) fn lines<T: Into<Text>>(lines: impl IntoIterator<Item = T>) -> Text {
        Text::join(lines, Span::Break)
    }

    /// Returns texts with a separator between them.
    pub(crate) fn join<T: Into<Text>>(
        texts: impl IntoIterator<Item = T>,
        between: impl Into<Text>,
    ) -> Text {
        let between = between.into();
        let mut spans = Vec::new();
        for (index, text) in texts.into_iter().enumerate() {
            if index > 0 {
                spans.extend_from_slice(&between.0);
            }
            spans.extend(text.into().0);
        }
        Text(spans)
    }

    /// Returns this text with another one appended on the same line.
    pub(crate) fn then(mut self, next: impl Into<Text>) -> Text {
        self.0.extend(next.into().0);
        self
    }
}

impl From<Span> for Text {
    fn from(span: Span) -> Text {
        Text(vec![span])
    }
}

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Text {
        Span::Plain(text.as_ref().to_owned()).into()
    }
}
