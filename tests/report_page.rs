//! The page of a report in a real browser, made from what was measured.

use crate::common;

use common::browser::{browser, opened};
use common::{Scratch, root};

/// Charts whose lines have no extent, texts that are too small to read, and those that lie on one another.
const CHARTS: &str = "charts: all('.chart').length,
    flat: all('.chart').filter(one => one.querySelector('svg').getBoundingClientRect().height < 60).length,
    small: all('.chart span').filter(one => parseFloat(f.contentWindow.getComputedStyle(one).fontSize) < 11).length,
    covered: all('.chart .marks').flatMap(marks => {
      const shown = [...marks.children].filter(one => box(one).width > 0);
      return shown.slice(1).filter((one, at) => box(one).left < box(shown[at]).right);
    }).length,
    cut: all('.summary').filter(one => one.scrollWidth > one.parentElement.clientWidth + 1).length,
    tables: all('table').length,
    untold: all('table').filter(one => !one.caption || one.querySelector('thead th:not([scope])')).length,";

#[test]
fn a_report_fits_a_phone_a_tablet_and_a_large_screen() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let reports = ["h200-x4-framework", "h200-x2-failed-call"];
    let pages = reports.map(|report| {
        let path = root().join("reports").join(report);
        scratch
            .run(&["render", &path.to_string_lossy(), "--as", "html"])
            .stdout
    });
    for (widths, is_dark, colour) in [
        (&[320, 1600][..], false, "rgb(255, 255, 255)"),
        (&[800], true, "rgb(13, 17, 23)"),
    ] {
        let sizes: Vec<(&str, u32)> = pages
            .iter()
            .flat_map(|page| widths.iter().map(|width| (page.as_str(), *width)))
            .collect();
        for ((_, width), seen) in sizes
            .iter()
            .zip(opened(&browser, &scratch, &sizes, is_dark, CHARTS))
        {
            let at = format!("one of {reports:?}, {width} pixels: {seen:#}");
            assert_eq!(
                seen["width"], *width,
                "the page must be scrolled sideways: {at}"
            );
            assert_eq!(
                (&seen["wide"], &seen["page"]),
                (&serde_json::json!([]), &colour.into()),
                "{at}"
            );
            assert!(
                seen["charts"].as_u64() > Some(3) && seen["tables"].as_u64() > Some(3),
                "{at}"
            );
            for none in [
                "cut", "flat", "small", "covered", "untold", "lost", "scripts",
            ] {
                assert_eq!(seen[none], 0, "{none}: {at}");
            }
        }
    }
}

/// Script that returns the numbers of visible rows of the summary, and of visible sections of answers, for each choice
/// of a filter.
const FILTERED: &str = "seen: Object.fromEntries(all('.filter input').map(one => {
      one.click();
      const seen = s => all(s).filter(row => box(row).height > 0).length;
      const counted = [seen('.summary tr.row'), seen('section.row')];
      page.getElementById(one.name + '-all').click();
      return [one.id, counted];
    })),";

#[test]
fn a_filter_shows_the_rows_that_its_label_counts() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let path = root().join("reports/h200-x2");
    let page = scratch
        .run(&["render", &path.to_string_lossy(), "--as", "html"])
        .stdout;
    let opened = opened(&browser, &scratch, &[(&page, 800)], false, FILTERED);
    let seen = &opened[0]["seen"];
    let counted = |id: &str| -> (u64, u64) {
        let label = page
            .split_once(&format!("id=\"{id}\""))
            .and_then(|(_, rest)| rest.split_once("</label>"));
        let count = label.and_then(|(label, _)| label.rsplit(' ').next()?.parse().ok());
        (
            count.unwrap_or_else(|| panic!("{id} has a label")),
            seen[id][1].as_u64().unwrap(),
        )
    };
    for id in [
        "answer-all",
        "answer-shows",
        "answer-absent",
        "folder-f0",
        "folder-f1",
    ] {
        let (labelled, sections) = counted(id);
        assert_eq!(labelled, sections, "{id}: {seen:#}");
        let rows = seen[id][0].as_u64().unwrap();
        assert!(0 < rows && rows <= sections, "{id}: {seen:#}");
    }
    let (all, shows) = (counted("answer-all").1, counted("answer-shows").1);
    assert!(
        shows < all && shows + counted("answer-absent").1 == all,
        "{seen:#}"
    );
}
