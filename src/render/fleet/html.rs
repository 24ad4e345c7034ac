//! One page that loads nothing: what differs as a table, a heat map of machines and questions, and a view of each
//! machine and each difference.
//!
//! The table is there without a script. The script draws the map and the views from the document, which is part of
//! the page. Its text was made harmless before, and the script only ever shows text as text.

use std::fmt::Write as _;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use cuda_pitfalls_answers::fleet::{Fleet, Usual};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::{html, visible};

use crate::html::page::{self, element, fold, paragraph, percent_encoded};

use super::findings::{Finding, findings};
use super::standing::{self, Few};
use super::words::{self, Remark, Told};

/// So many causes are seen at once.
const MOST_UNFOLDED: usize = 25;
/// So many more have a row; the views have all.
const MOST_CAUSES: usize = 500;
const MOST_NAMES: usize = 6;
/// So many machines and questions are named above the table.
const MOST_NAMED: usize = 20;
/// So many documents that were not merged are named.
const MOST_EXAMPLES: usize = 200;

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The whole page. `docs` is where the documentation is; without it pages of pitfalls are named.
pub(super) fn fleet(fleet: &Fleet, docs: Option<&str>) -> String {
    let told = words::told(fleet);
    let title = format!("cuda-pitfalls fleet: {}", words::title(fleet, &told));
    let mut out = page::head(&policy(), &title, STYLE) + "<main id=\"overview\">\n";
    let few = standing::few(fleet);
    head(&mut out, fleet, &told, &few);
    differences(&mut out, &findings(fleet, &told), &few, docs);
    map(&mut out, fleet);
    groups(&mut out, fleet, &told, &few);
    input(&mut out, fleet);
    out.push_str("</main>\n<main id=\"view\" hidden></main>\n");
    data(&mut out, fleet, &told, docs);
    let _ = writeln!(out, "<script>{SCRIPT}</script>");
    out + page::END
}

/// The content security policy: the page loads nothing, and only its own script runs.
fn policy() -> String {
    let digest = BASE64_STANDARD.encode(hmac_sha256::Hash::hash(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
}

fn head(out: &mut String, fleet: &Fleet, told: &[Told<'_>], few: &Few) {
    out.push_str("<header>\n<h1>cuda-pitfalls fleet</h1>\n");
    badges(out, fleet, words::differing(fleet, told), few);
    out.push('\n');
    if let Some(banner) = words::banner(fleet) {
        let _ = writeln!(out, "<p class=\"banner\" role=\"alert\">{}</p>", html(banner));
    }
    for Remark { name, text, class } in words::remarks(fleet, told, few, MOST_NAMED) {
        *out += &paragraph(class, &format!("{name}: {text}"));
    }
    if let Some(missing) = fleet.expected.as_ref().map(|it| &it.missing).filter(|it| it.len() > MOST_NAMED) {
        let summary = format!("All {} that are missing", missing.len());
        *out += &fold(&summary, &element("p", "", &html(&missing.join(", "))));
    }
    let _ = writeln!(
        out,
        "<p class=\"dim\">{}. Merged by cuda-pitfalls {}.</p>\n\
         <p><a href=\"#differences\">What differs</a> · <a href=\"#map-title\">All machines and questions</a> · \
         <a href=\"#groups\">Groups</a></p>\n</header>",
        html(&words::input(fleet)),
        html(&fleet.version)
    );
}

/// The counts, each in the colour of what it means.
fn badges(out: &mut String, fleet: &Fleet, differing: usize, few: &Few) {
    let missing = fleet.expected.as_ref().map(|expected| expected.missing.len());
    let unexpected = standing::unexpected_machines(fleet);
    let mut badge = |words: &str, class: &str| *out += &(element("span", &format!("badge {class}"), words) + " ");
    badge(&counted(fleet.machines.len() as u64, "machine"), "plain");
    badge(&counted(fleet.groups.len() as u64, "group"), "plain");
    if let Some(missing) = missing {
        badge(&format!("{missing} missing"), if missing > 0 { "bad" } else { "good" });
    }
    if unexpected > 0 {
        badge(&format!("{unexpected} with unexpected verdicts"), "bad");
    }
    if few.count() > 0 {
        badge(&format!("{} with few answers", few.count()), "doubt");
    }
    // Where nothing differs because all are wrong or have not answered, that is no good news.
    let class = match (differing, unexpected + few.count()) {
        (0, 0) => "good",
        (0, _) => "plain",
        _ => "doubt",
    };
    badge(&format!("{differing} {}", if differing == 1 { "differs" } else { "differ" }), class);
}

fn differences(out: &mut String, findings: &[Finding<'_, '_>], few: &Few, docs: Option<&str>) {
    out.push_str("<h2 id=\"differences\">What differs</h2>\n");
    if findings.is_empty() {
        *out += &paragraph("", few.no_difference());
        return;
    }
    let caption =
        "From what is usual in the group, the most important first. A machine that differs is not wrong for that.";
    let (first, rest) = findings.split_at(findings.len().min(MOST_UNFOLDED));
    out.push_str(&table(caption, first, docs));
    if rest.is_empty() {
        return;
    }
    let shown = rest.len().min(MOST_CAUSES);
    let less = table("Less important ones, in the same order.", rest.get(..shown).unwrap_or(rest), docs);
    *out += &fold(&format!("{shown} more of {}", findings.len()), &format!("\n{less}"));
    if rest.len() > shown {
        let more = rest.len() - shown;
        let _ = writeln!(
            out,
            "<p>And {more} beside: the map and the machines' views have them, and so has <code>fleet render --as csv</code>.</p>"
        );
    }
}

/// A row for each cause.
fn table(caption: &str, findings: &[Finding<'_, '_>], docs: Option<&str>) -> String {
    let columns = ["Question", "Differs in", "Usual", "These", "Machines", "Group"];
    let rows = findings.iter().map(|finding| {
        let one = finding.first;
        let place = finding.cause.differences.first().copied().unwrap_or_default();
        let labels = finding.labels().map(|labels| element("div", "", &html(&labels))).unwrap_or_default();
        let cells = vec![
            if finding.is_of_one_question() { question(one, docs) } else { questions(finding) },
            format!("<a href=\"#difference={}\">{}</a>", place + 1, html(&finding.share())),
            sides(finding, |side| &side.usual, one.difference.usual_machines),
            sides(finding, |side| &side.these, one.these()),
            machines(one, place) + &labels,
            html(&one.group),
        ];
        (String::new(), cells)
    });
    page::table("summary differences", caption, &columns, rows)
}

/// The questions of a cause: how many, and folded below it each with a link to its view.
fn questions(finding: &Finding<'_, '_>) -> String {
    let all = finding.questions();
    let link =
        |(place, name): &(usize, &str)| format!("<li><a href=\"#difference={}\">{}</a></li>", place + 1, html(name));
    let list: String = all.iter().map(link).collect();
    fold(&finding.subject(), &element("ul", "", &list))
}

/// A question: its name, what it asks, and its page.
fn question(one: &Told<'_>, docs: Option<&str>) -> String {
    let mut cell = html(one.name);
    if !one.question.is_empty() {
        cell += &element("div", "dim", &html(one.question));
    }
    match (one.page, docs) {
        (Some(page), Some(docs)) => {
            let _ = write!(cell, "<div><a href=\"{}\">{}</a></div>", html(&words::link(docs, page)), html(page));
        }
        (Some(page), None) => cell += &element("div", "dim", &html(page)),
        (None, _) => {}
    }
    cell
}

fn sides(finding: &Finding<'_, '_>, part: fn(&words::Side) -> &String, count: usize) -> String {
    let line =
        |side: &&words::Side| format!("<div><span class=\"dim\">{}:</span> {}</div>", html(&side.of), html(part(side)));
    let (sides, more) = finding.sides();
    let last = more.into_iter().chain([counted(count as u64, "machine")]);
    sides.iter().map(line).chain(last.map(|words| element("div", "dim", &words))).collect()
}

fn machines(one: &Told<'_>, place: usize) -> String {
    let link = |name: &&str| format!("<a href=\"#machine={}\">{}</a>", percent_encoded(&visible(name), ""), html(name));
    let mut cell = one.machines.iter().take(MOST_NAMES).map(link).collect::<Vec<_>>().join(", ");
    if let Some(more) = one.machines.len().checked_sub(MOST_NAMES).filter(|more| *more > 0) {
        let _ = write!(cell, " <a href=\"#difference={}\">and {more} more</a>", place + 1);
    }
    cell
}

/// The place of the map. The script fills it.
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

fn groups(out: &mut String, fleet: &Fleet, told: &[Told<'_>], few: &Few) {
    let rows = fleet.groups.iter().enumerate().map(|(place, group)| {
        (String::new(), vec![html(&words::key(&group.key)), words::group(group, told, few, place)])
    });
    out.push_str("<h2 id=\"groups\">Groups</h2>\n");
    let caption = "Machines are compared only within a group.";
    out.push_str(&page::table("groups", caption, &["Group", "Machines"], rows));
}

/// What was not merged, and why.
fn input(out: &mut String, fleet: &Fleet) {
    let not_merged = &fleet.input.not_merged;
    if not_merged.is_empty() {
        return;
    }
    let rows = not_merged
        .iter()
        .take(MOST_EXAMPLES)
        .map(|one| (String::new(), vec![html(&one.path), word(one.bucket), html(&one.why)]));
    out.push_str("<h2>Not merged</h2>\n");
    let caption = "Examples of documents that were not merged, with the reason.";
    out.push_str(&page::table("groups", caption, &["Document", "Bucket", "Why"], rows));
    if not_merged.len() > MOST_EXAMPLES {
        *out += &paragraph("", &format!("And {} more.", not_merged.len() - MOST_EXAMPLES));
    }
}

/// The document for the script: harmless text in it, and nothing that ends a script.
fn data(out: &mut String, fleet: &Fleet, told: &[Told<'_>], docs: Option<&str>) {
    let told = told.iter().map(|one| {
        let sides: Vec<[&String; 3]> = one.sides.iter().map(|side| [&side.of, &side.usual, &side.these]).collect();
        json!({
            "rank": one.rank.name(), "share": one.share(), "sides": sides, "split": one.is_split,
            "group": one.difference.group, "question": one.difference.question,
            "machines": one.difference.machines, "usual": one.difference.usual_machines,
        })
    });
    let usual = |one: &Usual| {
        let is_row = fleet.questions.get(one.question).is_some_and(|it| it.is_row);
        json!({
            "question": one.question,
            "verdict": one.outcomes.first().map(|outcome| words::verdict(outcome.kind, is_row)),
            "no_answer": one.no_answer, "not_asked": one.not_asked, "unexpected": one.unexpected,
        })
    };
    let groups = fleet.groups.iter().map(|group| {
        let usual: Vec<Value> = group.usual.iter().map(usual).collect();
        json!({ "words": words::key(&group.key), "machines": group.machines, "usual": usual })
    });
    let answered: Vec<[usize; 2]> = fleet.coverage().into_iter().map(|it| [it.answered, it.asked]).collect();
    let mut document = json!({
        "machines": fleet.machines, "questions": fleet.questions,
        "groups": groups.collect::<Value>(), "differences": told.collect::<Value>(),
        "answered": answered, "docs": docs.map(|docs| docs.trim_end_matches('/')),
    });
    make_harmless(&mut document);
    // In a script only `</script` and `<!--` mean anything, and JSON has another way to write their first character.
    let text = document.to_string().replace('<', "\\u003c");
    let _ = writeln!(out, "<script type=\"application/json\" id=\"fleet\">{text}</script>");
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
    fn a_fragment_has_no_letter_that_means_something() {
        assert_eq!(percent_encoded("gpu-17 \"a\"<ü", ""), "gpu-17%20%22a%22%3C%C3%BC");
    }
}
