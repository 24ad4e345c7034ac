use super::*;
use crate::listing::show;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::load_scenario;

const SOURCE: &str = r#"
question = "Does CUDA_VISIBLE_DEVICES take effect when it is set after the driver was initialised, or is it too late?"
belief = "Yes, the process then sees GPU 1 only."
tags = ["A01", "visibility"]
symptoms = ["mask-ignored", "wrong-gpu"]
says = ["it came too late"]
needs = { gpus = 2, driver = ">= 525" }
sources = ["https://example.org"]
no_control = "an example"
effect = [
  { at = "count", status = "CUDA_SUCCESS", value = { count = { ge = 2 } }, memory = { gpu0 = "none" }, because = "it was late" },
  { exit = 0 },
]
expect = [ { verdict = "reproduced", when = { driver = ">= 535" }, because = "measured", evidence = "reports/x" } ]
[cases.trap]
does = "cuInit first"
steps = [
  { cuInit = {} },
  { pthread_create = { as = "B" } },
  { cuDeviceGetCount = {}, label = "count", on = "B" },
  { cudaMalloc = { bytes = "1 MiB", as = "p" } },
]
"#;

#[test]
fn a_scenario_is_shown_in_words() {
    let scenario = load_scenario("visibility/late", "late.toml", SOURCE, &[]).unwrap();
    let text = show::text(&scenario, 100);
    for line in [
        "visibility/late\n",
        "symptoms    CUDA_VISIBLE_DEVICES is ignored; My work runs on another GPU than the one I chose\n",
        "messages    it came too late\n",
        "versions    since driver 535 the pitfall occurs\n",
        "needs       2 GPUs, driver >= 525\n",
        "     2  B = pthread_create()\n",
        "     3  cuDeviceGetCount()  on B  [count]\n",
        "     4  p = cudaMalloc(bytes = 1048576)\n",
        "- at count: it returns CUDA_SUCCESS, and count is at least 2, and memory of gpu0 has not changed: it\n  was late\n",
        "- the worker exits with 0\n",
        "- reproduced, where driver >= 535: measured (reports/x)\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn symptoms_are_counted_in_the_order_of_the_file() {
    let scenario = load_scenario("visibility/late", "late.toml", SOURCE, &[]).unwrap();
    let outlines = [
        Outline::new(&scenario),
        Outline {
            symptoms: vec!["wrong-gpu".into()],
            ..Outline::new(&scenario)
        },
    ];
    let text = symptoms_text(&outlines, 80);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(
        rows[0],
        "mask-ignored  1 question   CUDA_VISIBLE_DEVICES is ignored"
    );
    assert_eq!(rows.len(), 2, "{text}");
    assert!(
        rows[1].starts_with("wrong-gpu     2 questions  My work runs"),
        "{text}"
    );
    assert_eq!(
        symptoms_json(&outlines)["symptoms"][1]["questions"],
        json!(2)
    );
}

#[test]
fn a_list_fits_its_width_and_leaves_no_spaces_behind() {
    let scenario = load_scenario("visibility/late", "late.toml", SOURCE, &[]).unwrap();
    let starts = [
        (
            140,
            "visibility/late  A01 visibility  Does CUDA_VISIBLE_DEVICES",
        ),
        (
            60,
            "visibility/late  Does CUDA_VISIBLE_DEVICES take effect when",
        ),
        (
            50,
            "visibility/late\n    Does CUDA_VISIBLE_DEVICES take effect when",
        ),
    ];
    for (width, start) in starts {
        let text = list_text(&[Outline::new(&scenario)], width);
        assert!(text.starts_with(start), "{width}: {text}");
        assert!(
            text.lines()
                .all(|line| display_columns(line) <= width && line.trim_end() == line),
            "{text}"
        );
    }
    let listed = list_json(&[Outline::new(&scenario)]);
    assert_eq!(listed["scenarios"][0]["cases"], json!(["trap"]));
    assert_eq!(
        listed["scenarios"][0]["instances"],
        json!(["visibility/late"])
    );
    assert_eq!(listed["scenarios"][0]["needs"]["gpus"], json!(2));
}

#[test]
fn folders_fit_a_screen_and_say_what_to_type_next() {
    let all = catalogue::list(&[], &[]).unwrap();
    for (width, rows) in [(60, 30), (80, 24), (140, 20)] {
        let text = folders_text(&all, width);
        assert!(
            text.lines().count() < rows && text.lines().all(|line| display_columns(line) <= width),
            "{width}: {text}"
        );
        let counted: usize = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok())
            .sum();
        assert_eq!(counted, all.len(), "{text}");
        assert!(
            text.contains("list FOLDER ") && text.contains("run NAME "),
            "{text}"
        );
    }
}

#[test]
fn what_most_readers_came_for_fits_the_first_screen() {
    for scenario in catalogue::select_scenarios(&[]).unwrap() {
        for width in [60, 80, 140] {
            let text = show::text(&scenario, width);
            let head = text.lines().position(str::is_empty).unwrap();
            assert!(
                head <= if width < 80 { 24 } else { 20 },
                "{}: {head} lines at {width}",
                scenario.name
            );
            let (asked, rest) = text.split_once("\n\n").unwrap();
            assert!(
                asked.contains("\nrun it here cuda-pitfalls run ")
                    && !rest.contains("\nworkaround "),
                "{text}"
            );
        }
    }
}
