use super::{html, markdown, terminal};
use crate::block::{Block, Entry, Span, Table, Text, Tone};

/// Everything that has an effect in some format: a color, a title, a C1 control, a change of direction, commands of CI
/// systems, the end of a line, of a cell, of code and of a script, a tag, a name that is notified.
const HOSTILE: &str = "::error::x\r\n##[error]\x1b[31m\x1b]0;x\x07\u{9b}31m\u{202e}|```</script><img src=x onerror=x>@me [a](b)";

/// Returns every block with this text in each of its texts.
fn every_block(text: &str) -> Vec<Block> {
    let own = || text.to_owned();
    let link = Span::Link {
        text: own(),
        to: own(),
    };
    let fold = Span::Fold(own(), vec![own().into()]);
    let spans = [
        Span::Plain(own()),
        Span::Strong(own()),
        Span::Toned(Tone::Bad, own()),
        Span::Code(own()),
        link,
        fold,
    ];
    let all = Text::lines(spans);
    let inner = vec![
        Block::Heading(2, all.clone()),
        Block::Paragraph(all.clone()),
        Block::note("*** ", all.clone()),
        Block::Banner(own()),
        Block::Badges(vec![(Tone::Good, own())]),
        Block::Fact(own(), all.clone()),
        Block::List(vec![all.clone()]),
        Block::Gap,
        Block::Numbered(vec![all.clone()]),
        Block::Table(Table::new([own()], [vec![all.clone()]])),
        Block::Table(Table {
            records: Some("x"),
            ..Table::new([own(), own()], [vec![all.clone(), all.clone()]])
        }),
        Block::Table(Table {
            caption: own(),
            ..Table::new([own()], [vec![all.clone()]])
        }),
        Block::Code("sh", vec![own()]),
    ];
    let entry = Entry {
        class: own(),
        id: own(),
        title: Span::Plain(own()).into(),
        aside: own(),
        body: inner.clone(),
    };
    let entry = Block::Entry(entry);
    inner
        .iter()
        .cloned()
        .chain([
            entry,
            Block::Fold(own(), inner.clone()),
            Block::OnPages(inner.clone()),
        ])
        .collect()
}

#[test]
fn no_form_obeys_a_text_of_any_block() {
    let blocks = every_block(HOSTILE);
    let forms = [
        terminal::write(&blocks, 80),
        markdown::write(&blocks),
        html::page(HOSTILE, &blocks),
    ];
    for form in &forms {
        assert!(
            !form
                .chars()
                .any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'),
            "{form:?}"
        );
        assert!(
            !form.lines().any(|line| line.trim_start().starts_with("::"))
                && !form.contains("##[error"),
            "{form}"
        );
    }
    crate::fixture::assert_inert(&forms[2]);
    // A reader of Markdown finds no tag, link or image in it except the writer's own, and no broken table.
    let parser = pulldown_cmark::Parser::new_ext(&forms[1], pulldown_cmark::Options::ENABLE_TABLES);
    let (mut cells, mut rows) = (0, 0);
    for event in parser {
        use pulldown_cmark::{Event, Tag};
        match event {
            Event::Html(tag) | Event::InlineHtml(tag) => {
                let own = ["<br>", "<details>", "</details>", "<summary>", "</summary>"];
                assert!(
                    own.iter().any(|own| tag.trim().starts_with(own)) && !tag.contains("<img"),
                    "{tag}"
                );
            }
            Event::Start(Tag::Image { .. }) => panic!("an image"),
            Event::Start(Tag::Link { dest_url, .. }) => {
                assert!(!dest_url.contains([' ', '<', '|']), "{dest_url}")
            }
            Event::Start(Tag::TableRow) => rows += 1,
            Event::Start(Tag::TableCell) => cells += 1,
            _ => {}
        }
    }
    assert_eq!(
        (rows, cells),
        (12, 40),
        "one row and its heading in each table"
    );
}

#[test]
fn a_terminal_has_lines_of_its_width() {
    let blocks = every_block(&"word ".repeat(40));
    // Code is copied, so it is not broken.
    let text = terminal::write(&blocks, 60);
    let code = text.lines().filter(|line| line.chars().count() > 60);
    assert!(
        code.clone().all(|line| line.matches("word").count() == 40),
        "{text}"
    );
    let facts = [
        Block::fact("Name", "aaaaaaaaaa bbbbbbbbbb"),
        Block::fact("A longer name", "c"),
    ];
    assert_eq!(
        terminal::write(&facts, 30),
        "Name        aaaaaaaaaa
            bbbbbbbbbb
A longer name c
"
    );
    let item = Text::lines(["one two", "three"]);
    assert_eq!(
        terminal::write(&[Block::List(vec![item])], 7),
        "- one\n  two\n  three\n"
    );
}

#[test]
fn markdown_has_an_empty_line_between_blocks_and_facts_are_a_list() {
    let table = Table::new(["", "b"], [vec![Text::code("x|`y"), "1*2".into()]]);
    let blocks = [
        Block::Heading(1, "T".into()),
        Block::fact("a", "1*2"),
        Block::fact("b", "1*2"),
        Block::Gap,
        Block::Table(table),
    ];
    let wanted =
        "# T\n\n- a: 1\\*2\n- b: 1\\*2\n\n| | b |\n| --- | --- |\n| `` x\\|`y `` | 1\\*2 |\n";
    assert_eq!(markdown::write(&blocks), wanted);
    assert_eq!(
        markdown::write(&[Block::Code("c", vec!["a ```` b".into()])]),
        "`````c\na ```` b\n`````\n"
    );
}
