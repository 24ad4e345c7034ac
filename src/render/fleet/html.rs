//! A page that loads nothing: the differences as a table, a heat map of machines and questions, and a view of each
//! machine and each difference.
//!
//! The table works without a script. The script draws the map and the views from the document, which is part of the
//! page. Its text was escaped before, and the script only ever shows text as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use cuda_pitfalls_answers::fleet::Fleet;
use cuda_pitfalls_core::text::escape::{escape_html, shorten_text, visible};

use super::standing;
use super::view::{self, FleetView};
use super::words::{self, Deviation};
use crate::block::{Block, Span, Table, Text, Tone};
use crate::html::page::{self, element};
use crate::writer::html::{tone_class, write};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Returns the complete page. `docs` is the location of the documentation; if omitted, pages of pitfalls are named
/// without a link.
pub(super) fn fleet(fleet: &Fleet, docs: Option<&str>) -> String {
    let view = FleetView::new(fleet, view::HTML, docs);
    let title = format!("{}: {}", view::TITLE, standing::title(fleet, &view.told));
    let mut out =
        page::page_head(&page::script_policy(SCRIPT), &title, STYLE) + "<main id=\"overview\">\n";
    out += &element("header", "", &(write(&view.overview_blocks()) + LINKS));
    out += &write(&view.difference_blocks());
    map(&mut out, fleet);
    out += &write(&view.groups());
    out += &write(&view.not_merged());
    out.push_str("</main>\n<main id=\"view\" hidden></main>\n");
    write_data(&mut out, fleet, &view.told, docs);
    let _ = writeln!(out, "<script>{SCRIPT}</script>");
    out + page::END
}

/// Returns the four numbers at the top of the page, the other counts, and the machines of each driver.
pub(super) fn key_numbers(fleet: &Fleet, told: &[Deviation<'_>]) -> Vec<Block> {
    let mut items = String::new();
    for (tone, count, what) in standing::key_numbers(fleet, told) {
        let class = match count {
            None | Some(0) => "dim",
            Some(_) if tone == Tone::Plain => "",
            Some(_) => tone_class(tone),
        };
        let count = count.map_or_else(|| "–".to_owned(), |count| count.to_string());
        let number = element("strong", "", &count);
        items += &element("li", class, &format!("{number} {}", escape_html(&what)));
    }
    let mut blocks = vec![Block::Drawn(element("ul", "numbers", &items))];
    let further = standing::further_counts(fleet, told);
    if !further.is_empty() {
        blocks.push(Block::Badges(further));
    }
    blocks.extend(driver_table(fleet));
    blocks
}

/// Returns the machines of each driver with a bar, the most frequent driver first; nothing if there is one driver.
fn driver_table(fleet: &Fleet) -> Option<Block> {
    let mut machines: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for group in standing::answer_groups(fleet) {
        let driver = match group.key.driver.as_str() {
            "" => "not known",
            driver => driver,
        };
        machines.entry(driver).or_default().extend(&group.machines);
    }
    if machines.len() < 2 {
        return None;
    }
    let mut drivers: Vec<(&str, u64)> = Vec::new();
    for (driver, machines) in machines {
        drivers.push((driver, machines.len() as u64));
    }
    drivers.sort_by_key(|(_, machines)| std::cmp::Reverse(*machines));
    let most = drivers.first().map_or(1, |(_, machines)| *machines).max(1);
    let mut rows = Vec::new();
    for (driver, machines) in drivers.iter().take(MOST_DRIVERS) {
        let bar = Span::Bars([(100 * machines).div_ceil(most), 0]);
        rows.push(vec![
            Text::from(shorten_text(driver, 60)),
            Text::from(machines.to_string()).then(bar),
        ]);
    }
    Some(Block::Section {
        class: "drivers".to_owned(),
        id: "drivers".to_owned(),
        blocks: vec![Block::Table(Table {
            caption: "Machines by driver".to_owned(),
            ..Table::new(["Driver", "Machines"], rows)
        })],
    })
}

const MOST_DRIVERS: usize = 12;

const LINKS: &str = "<p><a href=\"#what-differs\">What differs</a> · \
    <a href=\"#map-title\">All machines and questions</a> · <a href=\"#groups\">Groups</a></p>";

/// Writes the element of the map, which the script fills.
fn map(out: &mut String, fleet: &Fleet) {
    let _ = writeln!(
        out,
        "<h2 id=\"map-title\">All machines and questions</h2>\n\
         <noscript><p class=\"warning\">The map and the views of machines need this page's script.</p></noscript>\n\
         <div id=\"tools\" hidden>\n\
         <label>Machines <input id=\"find-machine\" type=\"search\" placeholder=\"part of a name or label\"></label>\n\
         <label>Questions <input id=\"find-question\" type=\"search\" placeholder=\"part of a name\"></label>\n\
         <label>Order <select id=\"order\"><option value=\"weight\">what differs first</option>\
         <option value=\"name\">by name</option><option value=\"group\">by group</option></select></label>\n\
         <label>Size <select id=\"size\"><option value=\"18\">large</option><option value=\"8\">small</option>\
         <option value=\"3\">smallest</option></select></label>\n\
         <label><input id=\"only\" type=\"checkbox\"> only what differs</label>\n</div>\n\
         <ul id=\"key\" hidden></ul>\n\
         <p id=\"where\" class=\"dim\" role=\"status\"></p>\n\
         <div id=\"map\" class=\"wide\" tabindex=\"0\" role=\"application\" aria-roledescription=\"heat map\" \
         aria-labelledby=\"map-title\" aria-describedby=\"how\" hidden><div id=\"sheet\"><canvas id=\"canvas\"></canvas></div></div>\n\
         <p id=\"how\" class=\"dim\" hidden>{} rows, {} columns. Arrow keys move from cell to cell, n and p to the next and \
         the previous machine that differs in this question, Enter opens the machine. The table above has what \
         differs as text.</p>",
        fleet.machines.len(),
        fleet.questions.len(),
    );
}

/// Writes the document for the script, escaped so that nothing in it ends a script.
fn write_data(out: &mut String, fleet: &Fleet, told: &[Deviation<'_>], docs: Option<&str>) {
    let told = told.iter().map(|one| {
        let sides = one
            .contrasts
            .iter()
            .map(|contrast| [&contrast.about, &contrast.usual, &contrast.these])
            .collect::<Vec<[&String; 3]>>();
        json!({
            "rank": one.rank.name(), "share": one.outlier_share(), "sides": sides, "split": one.is_split,
            "group": one.difference.group, "question": one.difference.question,
            "machines": one.difference.machines, "usual": one.difference.usual_machines,
        })
    });
    let groups = fleet.groups.iter().map(|group| {
        let usual = group.usual.iter().map(|one| {
            let is_row = fleet.questions.get(one.question).is_some_and(|question| question.is_row);
            json!({
                "question": one.question,
                "verdict": one.outcomes.first().map(|outcome| words::verdict(outcome.kind, is_row)),
                "no_answer": one.no_answer, "not_asked": one.not_asked, "unexpected": one.unexpected,
            })
        });
        json!({ "words": words::key(&group.key), "facts": group.key.is_of_facts, "machines": group.machines, "usual": usual.collect::<Value>() })
    });
    let answered: Vec<[usize; 2]> = fleet
        .coverage()
        .into_iter()
        .map(|coverage| [coverage.answered, coverage.asked])
        .collect();
    let mut document = json!({
        "machines": fleet.machines, "questions": fleet.questions,
        "groups": groups.collect::<Value>(), "differences": told.collect::<Value>(),
        "answered": answered, "docs": docs.map(|docs| docs.trim_end_matches('/')),
    });
    make_harmless(&mut document);
    // In a script, only `</script` and `<!--` have a meaning, and JSON has another way to write their first character.
    let text = document.to_string().replace('<', "\\u003c");
    let _ = writeln!(
        out,
        "<script type=\"application/json\" id=\"fleet\">{text}</script>"
    );
}

fn make_harmless(value: &mut Value) {
    match value {
        Value::String(text) => *text = visible(text),
        Value::Array(parts) => parts.iter_mut().for_each(make_harmless),
        Value::Object(parts) => {
            for (key, mut part) in std::mem::take(parts) {
                make_harmless(&mut part);
                parts.insert(visible(&key), part);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_with_four_numbers_and_the_drivers() {
        let mut made = crate::fleet::fixture::fleet();
        let page = fleet(&made, None);
        let (head, _) = page.split_once("<h2").unwrap();
        let numbers = head.split("<li").skip(1);
        let numbers = numbers.filter_map(|item| item.split_once("</li>"));
        let numbers: Vec<&str> = numbers.map(|(item, _)| item).collect();
        assert_eq!(numbers.len(), 4, "{head}");
        assert!(numbers[1].starts_with(" class=\"dim\"><strong>0</strong> cannot use CUDA"));
        assert!(numbers[3].starts_with(" class=\"bad\"><strong>1</strong> missing"));
        let mut other = made.groups[0].clone();
        other.machines.truncate(1);
        other.key.driver = "<b>".to_owned();
        made.groups.push(other);
        let page = fleet(&made, None);
        assert!(
            page.contains("<td>&lt;b&gt;</td><td>1<span class=\"bars\""),
            "{page}"
        );
    }

    #[test]
    fn a_fragment_has_no_letter_that_means_something() {
        assert_eq!(
            page::percent_encoded("gpu-17 \"a\"<ü", ""),
            "gpu-17%20%22a%22%3C%C3%BC"
        );
    }
}
