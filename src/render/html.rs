//! A report as one page without scripts and without links to anything outside, so that it can be mailed,
//! archived, or opened from a CI artefact years later.

mod attempt;
mod filter;
pub(crate) mod page;
mod scenario;
mod summary;

use std::fmt::Write as _;

use cuda_pitfalls_core::report::ReportView;

use super::{answer, applicable, tally, words};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_core::text::units;
use page::{POLICY, element, fold, paragraph};
use summary::Folders;

/// More selectors than this are folded.
const MOST_SELECTORS: usize = 8;

/// The whole page.
pub fn report(report: &ReportView<'_>) -> String {
    let mut out = page::head(POLICY, &format!("cuda-pitfalls: {}", tally::sentence(report)), "");
    head(&mut out, report);
    let folders = Folders::of(report);
    if !report.scenarios.is_empty() {
        summary::section(&mut out, report, &folders);
    }
    out += &format!("<h2>Machine</h2>\n{}", page::definitions(words::machine(report)));
    for (place, one) in report.scenarios.iter().enumerate() {
        scenario::section(&mut out, report, one, place, &folders);
    }
    out + page::END
}

fn head(out: &mut String, report: &ReportView<'_>) {
    let run = &report.run;
    let _ =
        writeln!(out, "<header>\n<h1>cuda-pitfalls</h1>\n<p class=\"machine\">{}</p>", html(&answer::machine(report)));
    out.push_str("<p class=\"counts\">");
    for (standing, count) in tally::counts(report.scenarios.iter().map(|it| it.verdict)).into_iter().rev() {
        let (class, mark, name) = (standing.class(), standing.mark(), standing.name());
        let _ = write!(out, "<span class=\"badge {class}\">{mark} {count} {name}</span> ");
    }
    if report.scenarios.is_empty() {
        out.push_str("<span class=\"badge doubt\">no scenario ran</span>");
    }
    out.push_str("</p>\n");
    for banner in tally::banners(report) {
        let _ = writeln!(out, "<p class=\"banner\" role=\"alert\">{}</p>", html(&banner));
    }
    for note in answer::surroundings(report).into_iter().chain(applicable::notes(report)) {
        *out += &paragraph("", &note);
    }
    for warning in &run.warnings {
        *out += &paragraph("warning", &format!("Doubt: {warning}"));
    }
    let exit = run.exit.as_ref().map_or_else(|| "none".to_owned(), |exit| format!("{} ({})", exit.code, exit.name));
    let (selected, all) = match run.selectors.as_slice() {
        [] => ("everything".to_owned(), String::new()),
        few if few.len() <= MOST_SELECTORS => (few.join(" "), String::new()),
        many => (format!("by {}", counted(many.len(), "selector")), many.join(" ")),
    };
    let _ = writeln!(
        out,
        "<p class=\"dim\">Run <code>{}</code>, started {}, {}, on {}, selected: {}, exit {}, version {}, seed {}.</p>",
        html(&run.id),
        html(&run.started_at),
        html(&units::duration(run.elapsed_ns)),
        html(&run.on),
        html(&selected),
        html(&exit),
        html(&run.version),
        run.seed,
    );
    if !all.is_empty() {
        *out += &fold("The selectors", &element("p", "dim", &html(&all)));
    }
    out.push_str("</header>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_page_shows_steps_and_charts() {
        let page = report(&fixture::report().view());
        for part in [
            "<span class=\"badge bad\">✗ not_reproduced</span>",
            "<td>gpu0 +530 MiB (context)",
            "<figure class=\"chart\"",
            "href=\"#s0\"",
            "id=\"s0\"",
            "NVIDIA H200",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn what_needs_attention_comes_first_with_its_reason() {
        let page = report(&fixture::report().view());
        let (summary, _) = page.split_once("<h2>Machine</h2>").unwrap();
        let at = |what: &str| summary.find(what).unwrap_or_else(|| panic!("{what}"));
        assert!(at("href=\"#s1\"") < at("href=\"#s2\"") && at("href=\"#s2\"") < at("href=\"#s0\""));
        assert!(at("<div class=\"failed\">expected reproduced: the driver has made") < at("href=\"#s2\""));
        assert!(at("<div class=\"warning\">some attempts show it") < at("href=\"#s0\""));
        assert!(at("href=\"#s0\"") < at("href=\"#s3\""), "the rest is in the order in which it ran");
    }

    #[test]
    fn the_page_loads_and_runs_nothing_and_every_tag_is_closed() {
        for report in [fixture::report(), fixture::hostile(), fixture::empty(), fixture::partial()] {
            fixture::assert_inert(&super::report(&report.view()));
        }
    }
}
