//! `fleet render` on the command line, and the page of a fleet in a real browser.

use crate::common;

use cuda_pitfalls::render::fleet::fixture;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use cuda_pitfalls::fleet;

use common::browser::{browser, opened};
use common::{Scratch, names_in};
use fleet::Fleet;

/// Returns a page of this fleet.
fn page(scratch: &Scratch, fleet: &Fleet) -> String {
    let path = stored(scratch, fleet);
    let ran = scratch
        .run(&["fleet", "render", &path, "--as", "html"])
        .good();
    ran.stdout
}

fn stored(scratch: &Scratch, fleet: &Fleet) -> String {
    scratch.file(
        "fleet.json",
        serde_json::to_string(fleet).expect("a fleet is JSON"),
    )
}

/// Script that returns what the map draws, by color, and how it reacts to the keyboard.
const MAP: &str = "
    hidden: all('#map, #tools, #key').filter(one => one.hidden).length,
    drawn: page.querySelector('#map').dataset.drawn,
    columns: page.querySelector('#canvas').width,
    colours: (() => {
      const canvas = page.querySelector('#canvas');
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
      for (let at = 0; at < data.length; at += 4) seen.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
      return [...seen];
    })(),
    said: (() => {
      const map = page.querySelector('#map'), where = page.querySelector('#where'), said = [where.textContent];
      for (const key of ['ArrowRight', 'ArrowDown', 'End', 'PageDown', 'Home']) {
        map.dispatchEvent(new f.contentWindow.KeyboardEvent('keydown', { key, bubbles: true }));
        said.push(where.textContent);
      }
      return said;
    })(),
    bottom: (() => {
      const map = page.querySelector('#map');
      map.scrollTop = map.scrollHeight;
      return map.scrollTop > 0 && page.querySelector('#canvas').getBoundingClientRect().height <= map.clientHeight;
    })(),
    found: (() => {
      const set = (id, value) => {
        page.getElementById(id).value = value;
        page.getElementById(id).dispatchEvent(new f.contentWindow.Event('input'));
      };
      set('find-machine', 'no such machine');
      const none = page.getElementById('where').textContent;
      set('find-machine', '');
      return none;
    })(),
    tables: all('table').length,
    untold: all('table').filter(one => !one.caption || one.querySelector('thead th:not([scope])')).length,
    links: all('.differences a[href^=\"#machine=\"]').length,
    broad: all('.differences td').filter(one => box(one).width > box(one.closest('table')).width / 2).length,
    cut: all('.summary').filter(one => one.scrollWidth > one.parentElement.clientWidth + 1).length,";

/// Script that returns the content of a view: of the first machine of the table, and of the first difference.
const VIEWS: &str = "
    views: ['a[href^=\"#machine=\"]', 'a[href^=\"#difference=\"]'].map(which => {
      all('.differences tr').find(row => row.textContent.includes('node-3')).querySelector(which).click();
      f.contentWindow.dispatchEvent(new f.contentWindow.Event('hashchange'));
      const view = page.getElementById('view');
      const seen = {
        title: view.querySelector('h1').textContent, focus: page.activeElement === view.querySelector('h1'),
        hidden: page.getElementById('overview').hidden, text: view.textContent,
        wide: [...view.querySelectorAll('*')].filter(one => !one.closest('.wide') && box(one).right > page.documentElement.clientWidth + 1).length,
      };
      f.contentWindow.location.hash = '';
      f.contentWindow.dispatchEvent(new f.contentWindow.Event('hashchange'));
      seen.back = !page.getElementById('overview').hidden;
      return seen;
    }),
    evil: all('img').length,";

#[test]
fn ten_thousand_machines_and_two_hundred_questions_can_be_used() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let page = page(&scratch, &fixture::large(10_000, 200));
    for (width, is_dark, colour, usual) in [
        (320, false, "rgb(255, 255, 255)", "207,232,213"),
        (1600, true, "rgb(13, 17, 23)", "29,61,42"),
    ] {
        let seen = &opened(&browser, &scratch, &[(&page, width)], is_dark, MAP)[0];
        let at = format!("{width} pixels: {seen:#}");
        assert_eq!(
            seen["width"], width,
            "the page must be scrolled sideways: {at}"
        );
        assert_eq!(
            (&seen["wide"], &seen["page"]),
            (&serde_json::json!([]), &colour.into()),
            "{at}"
        );
        for none in ["hidden", "untold", "cut"] {
            assert_eq!(seen[none], 0, "{none}: {at}");
        }
        // On a phone, each cell is on its own line.
        assert!(
            width == 320 || seen["broad"] == 0,
            "a column leaves too little for the others: {at}"
        );
        assert!(seen["drawn"].is_string() && seen["bottom"] == true, "{at}");
        let colours = seen["colours"].as_array().expect("a list");
        assert!(colours.contains(&usual.into()) && colours.len() > 4, "{at}");
        let said: Vec<&str> = seen["said"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|it| it.as_str())
            .collect();
        assert!(
            said[0].contains("usual") && said[0].contains("different verdict"),
            "the first cell matters most: {at}"
        );
        let distinct: std::collections::HashSet<&&str> = said.iter().collect();
        assert_eq!(distinct.len(), said.len(), "each key moves: {at}");
        assert_eq!(seen["found"], "No machine or no question matches.", "{at}");
        assert!(
            seen["links"].as_u64() > Some(100) && seen["tables"].as_u64() > Some(1),
            "{at}"
        );
    }
}

#[test]
fn every_machine_and_every_difference_has_a_view() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    for (fleet, name, is_dark) in [
        (fixture::fleet(), "node-3", false),
        (fixture::hostile(), "node-3", true),
    ] {
        let page = page(&scratch, &fleet);
        for (width, seen) in [320, 800].into_iter().zip(opened(
            &browser,
            &scratch,
            &[(&page, 320), (&page, 800)],
            is_dark,
            VIEWS,
        )) {
            let at = format!("{name}, {width} pixels: {seen:#}");
            assert_eq!(seen["width"], width, "{at}");
            assert_eq!(
                (&seen["scripts"], &seen["evil"]),
                (&2.into(), &0.into()),
                "{at}"
            );
            let views = seen["views"].as_array().expect("a list");
            assert_eq!(views.len(), 2);
            for view in views {
                assert!(
                    view["focus"] == true && view["hidden"] == true && view["back"] == true,
                    "{at}"
                );
                assert_eq!(view["wide"], 0, "{at}");
                let text = view["text"].as_str().unwrap_or_default();
                assert!(
                    text.contains("cudaSuccess, no context")
                        && text.contains("no (not_reproduced)") | text.contains("unknown"),
                    "{at}"
                );
            }
            assert!(
                views[0]["title"]
                    .as_str()
                    .is_some_and(|title| title.ends_with(name)),
                "{at}"
            );
        }
    }
}

#[test]
fn page_is_written_atomically_and_world_readable() {
    let scratch = Scratch::new();
    let path = stored(&scratch, &fixture::fleet());
    let out = scratch.file("fleet.prom", "old");
    let ran = scratch.run(&[
        "fleet",
        "render",
        &path,
        "--as",
        "prometheus",
        "--out",
        &out,
    ]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), ""),
        "{}",
        ran.stderr
    );
    let text = fs::read_to_string(&out).expect("the file is there");
    assert!(text.contains("cuda_pitfalls_fleet_machines 6\n"), "{text}");
    assert_eq!(
        fs::metadata(&out)
            .expect("the file is there")
            .permissions()
            .mode()
            & 0o044,
        0o044
    );
    assert!(
        names_in(scratch.path())
            .iter()
            .all(|name| !name.starts_with(".cuda"))
    );
    let nowhere = scratch.at("nowhere/fleet.prom");
    scratch
        .run(&[
            "fleet",
            "render",
            &path,
            "--as",
            "prometheus",
            "--out",
            &nowhere,
        ])
        .ended(74, "not_durable")
        .says("nowhere/fleet.prom");
}

#[test]
fn what_is_no_fleet_and_no_address_is_refused_in_words() {
    let scratch = Scratch::new();
    let path = stored(&scratch, &fixture::fleet());
    let report = common::root().join("reports/h200-x2");
    scratch
        .run(&["fleet", "render", &report.to_string_lossy()])
        .ended(2, "usage")
        .says("`schema.name` is not \"cuda-pitfalls-fleet\"");
    for address in ["javascript:alert(1)", "docs", "https://example.org/a b"] {
        scratch
            .run(&["fleet", "render", &path, "--as", "html", "--docs", address])
            .ended(2, "usage");
    }
}

/// Prometheus' own parser, if it is installed.
#[test]
fn promtool_accepts_the_metrics() {
    use std::io::Write as _;
    let found = Command::new("promtool").arg("--version").output();
    if found.is_err() {
        let _ = writeln!(
            std::io::stderr(),
            "LEFT OUT: no promtool is installed, so Prometheus' parser was not asked"
        );
        return;
    }
    let scratch = Scratch::new();
    for fleet in [
        fixture::fleet(),
        fixture::hostile(),
        fixture::large(300, 20),
    ] {
        let metrics = scratch.at("metrics");
        scratch.run(&[
            "fleet",
            "render",
            &stored(&scratch, &fleet),
            "--as",
            "prometheus",
            "--out",
            &metrics,
        ]);
        let metrics = fs::File::open(metrics).expect("it was written");
        let output = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(metrics)
            .output();
        let output = output.expect("promtool starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
