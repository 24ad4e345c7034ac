//! What measuring costs.

use cuda_pitfalls::report::read;
use serde_json::Value;

use super::{Page, document};
use crate::common::root;

fn median(of: &Value) -> f64 {
    of["median"].as_f64().expect("a median")
}

#[test]
fn the_table_of_the_samplers_rest_is_that_of_the_benchmark() {
    let bench = document("overhead/h200-x1.json");
    let mut page = Page::open("docs/overhead.md");
    for (rest, shown) in [
        (0, "0"),
        (200, "200"),
        (1000, "1000"),
        (2000, "**2000**"),
        (5000, "5000"),
        (1_000_000, "1 000 000"),
    ] {
        let of = &bench[format!("sampler resting {rest} us")];
        let ratio = &of["attempt wall / bare wall"];
        page.says(format!(
            "| {shown} | {:.3} | {:.2} to {:.2} | {:.0} | {:.0} | {:.0} | {:.1} |",
            median(ratio),
            ratio["min"].as_f64().expect("a number"),
            ratio["max"].as_f64().expect("a number"),
            median(&of["attempt wall_ns"]) / 1e6,
            median(&of["bare wall_ns"]) / 1e6,
            median(&of["free-running reads of every GPU, per second"]),
            median(&of["longest gap of the free run, ns"]) / 1e6,
        ));
    }
}

#[test]
fn phases_of_an_attempt_are_those_that_were_timed() {
    let (one, two) = (
        document("overhead/h200-x1-phases.json"),
        document("overhead/h200-x2-phases.json"),
    );
    let (masked, both) = ("sampler resting 2000 us", "without a mask");
    let columns = [&one[masked], &two[masked], &two[both]];
    let mut page = Page::open("docs/overhead.md");
    let phases = [
        ("1 until the first call", "until the first call"),
        ("2 cuInit", "`cuInit`"),
        ("3 retain", "`cuDevicePrimaryCtxRetain`"),
        ("4 release", "`cuDevicePrimaryCtxRelease_v2`"),
        (
            "5 between calls",
            "between calls: step barriers, probes, snapshots",
        ),
        ("6 exit", "exit"),
    ];
    for (phase, shown) in phases {
        let cell = |of: &&Value| {
            let of = &of["phases, ns"][phase];
            let ms = |who: &str| median(&of[who]) / 1e6;
            let bare = if ms("bare") == 0.0 {
                "0".to_owned()
            } else {
                format!("{:.1}", ms("bare"))
            };
            format!("{:.1} / {bare}", ms("attempt"))
        };
        page.says(format!(
            "| {shown} | {} |",
            columns.iter().map(cell).collect::<Vec<_>>().join(" | ")
        ));
    }
    let ratio = |of: &&Value| format!("**{:.3}**", median(&of["attempt wall / bare wall"]));
    page.says(format!(
        "| **total, median of the ratios** | {} |",
        columns.map(|of| ratio(&of)).join(" | ")
    ));
    let again = &one[both]["attempt wall / bare wall"];
    let (least, most) = (
        again["min"].as_f64().expect("a number"),
        again["max"].as_f64().expect("a number"),
    );
    page.says(format!(
        "gave a median of {:.3} with a spread of {least:.2} to {most:.2}",
        median(again)
    ));
    let gap = |of: &Value| median(&of["longest gap of the free run, ns"]) / 1e6;
    page.says(format!(
        "it was about {:.0} ms (median, `h200-x2-phases.json`)",
        gap(&two[both])
    ));
    let list = &one["list wall_ns"];
    let ms = |which: &str| list[which].as_f64().expect("a number") / 1e6;
    page.says(format!(
        "| {:.1} ms | {:.1} to {:.1} ms |",
        ms("median"),
        ms("min"),
        ms("max")
    ));
}

#[test]
fn the_parents_memory_is_what_reports_say() {
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let folder = root().join("reports/shared-gpus");
    let mut essential = Vec::new();
    let mut page = Page::open("docs/overhead.md");
    for file in std::fs::read_dir(&folder).expect("the folder").flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(short) = name.strip_suffix(".json.gz") else {
            continue;
        };
        let report = read(&file.path()).expect("a committed report");
        let peak = report.run.parent_peak_rss_bytes.expect("it was read");
        if report.run.selectors == ["essential"] && report.machine.gpus.len() == 2 {
            essential.push(peak);
        } else if report.run.selectors == ["all"] {
            let cases = report.scenarios.iter().flat_map(|scenario| &scenario.cases);
            let attempts: usize = cases.map(|case| case.attempts.len()).sum();
            page.says(format!("{attempts} attempts"));
            page.says(format!(
                "| {} MiB | `reports/shared-gpus/{short}` |",
                mib(peak)
            ));
        }
    }
    let (least, most) = (
        essential.iter().min().expect("some"),
        essential.iter().max().expect("some"),
    );
    page.says(format!(
        "{} runs of the essential set on 2 GPUs | {} to {} MiB |",
        essential.len(),
        mib(*least),
        mib(*most)
    ));
}
