//! What measuring costs.

use serde_json::Value;

use crate::{Page, document};

fn median(of: &Value) -> f64 {
    of["median"].as_f64().expect("a median")
}

#[test]
fn the_table_of_the_samplers_rest_is_that_of_the_benchmark() {
    let bench = document("overhead/h200-x1.json");
    let mut page = Page::open("docs/overhead.md");
    for (rest, shown) in
        [(0, "0"), (200, "200"), (1000, "1000"), (2000, "**2000**"), (5000, "5000"), (1_000_000, "1 000 000")]
    {
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
fn what_surveys_cost_is_what_was_timed() {
    let bench = document("overhead/surveys-h200-x2.json");
    let mut page = Page::open("docs/surveys/README.md");
    for name in ["survey-calls-h200-x2-start-up", "survey-mask-h200-x2", "survey-env-h200-x2"] {
        let of = &bench[name];
        let seconds = of["survey wall_ns"].as_f64().expect("a number") / 1e9;
        let ratio = of["survey wall / bare wall"].as_f64().expect("a number");
        page.says(format!("| {seconds:.0} s | {ratio:.2} |"));
    }
}
