//! What a view is made of. A view is a function from a document to blocks, and a [`super::writer`] makes text of these.
//!
//! Nothing in a block is escaped or broken into lines: only a writer knows what acts in its form, and how wide it is.

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
    /// A text behind a word that says what it is, such as `warning: `.
    Note(&'static str, Text),
    /// Counts, each in its colour.
    Badges(Vec<(Tone, String)>),
    /// A name and what there is to say about it.
    Fact(String, Text),
    List(Vec<Text>),
    Numbered(Vec<Text>),
    Table(Table),
    /// Lines of a language, whose name may be empty.
    Code(&'static str, Vec<String>),
    /// What a page shows when its summary is opened, and a terminal below it.
    Fold(String, Vec<Block>),
    /// What happened or was found, with what belongs to it below.
    Entry(Entry),
    /// Blocks in a box of their own on a page, with CSS classes and an anchor.
    Section {
        class: String,
        id: String,
        blocks: Vec<Block>,
    },
    /// Memory over time, for pages that can draw.
    Chart(Chart),
    /// What is drawn for a page alone: elements, in which everything is escaped.
    Drawn(String),
    /// What is too long for a terminal.
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

    /// How many are left out; nothing if none is.
    pub(crate) fn more(all: usize, most: usize, what: &str) -> Option<Block> {
        let left = all.checked_sub(most).filter(|left| *left > 0)?;
        Some(Block::paragraph(Span::Toned(
            Tone::Dim,
            format!("… and {left} more {what}; the document has them all."),
        )))
    }
}

/// A title with what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// CSS classes on a page.
    pub(crate) class: String,
    /// The anchor on a page; empty if nothing links here.
    pub(crate) id: String,
    pub(crate) title: Text,
    /// What stands at the right on a terminal, such as the time of an event.
    pub(crate) aside: String,
    pub(crate) body: Vec<Block>,
}

/// Rows of cells below their columns' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) caption: String,
    /// The class on a page, if the rows are records: a terminal and a narrow page write the cells of each below each
    /// other, with the column's name before all but the first.
    pub(crate) records: Option<&'static str>,
    /// The classes of each row on a page, if they have some.
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

    /// Values beside their names.
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
    /// What can be typed. A terminal does not break it where it is alone in its line.
    Code(String),
    /// A target that begins with `#` is an anchor of the same page; Markdown has no such anchors, so it shows the text.
    Link {
        text: String,
        to: String,
    },
    /// What a page shows below a summary once that is opened, and other writers behind it.
    Fold(String, Vec<Text>),
    /// The end of a line.
    Break,
}

/// What a part of a text means to its reader: its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Less important than the rest.
    Dim,
    Plain,
    Good,
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

    /// Texts with this between them.
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

    /// This and what follows in the same line.
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
