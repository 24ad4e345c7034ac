use super::*;
use crate::scenario::{
    Class, ExitCheck, Expected, GpuList, Matcher, Operand, Python, Scalar, When,
};

const GOOD: &str = r#"# Everything a file can say.
question = "Is it so?"
belief = "It is."
tags = ["A01", "test"]
sources = ["https://example.org"]
needs = { gpus = 2, driver = ">= 525" }
hazards = ["bigmem"]
repeat = 3
timeout = "2m"
effect = [
  { at = "count", status = "CUDA_SUCCESS", value = { count = { ge = 1, lt = "1 KiB" } }, memory = { gpu0 = "context", others = ["none", "init"] } },
  { exit = 0 },
]
expect = [ { verdict = "reproduced", when = { driver = ">= 535", parameters = { query = "cuDriverGetVersion" } }, because = "measured" } ]

[parameters]
query = ["cuDriverGetVersion", "cudaDriverGetVersion"]

[cases.trap]
does = "${query} first"
gpus = "all"
env = { CUDA_MODULE_LOADING = "EAGER" }
steps = [
  { "${query}" = {} },
  { cuInit = {} },
  { cuInit = {} },
  { setenv = { name = "CUDA_VISIBLE_DEVICES", value = "${gpu1}" } },
  { pthread_create = { as = "B" } },
  { cuDeviceGetCount = {}, label = "count", on = "B" },
  { cudaMalloc = { bytes = "2 GiB", as = "p" } },
  { cudaFree = { pointer = "p" } },
  { cudaSetDevice = { device = "${gpus}" } },
  { pthread_join = { actor = "B" } },
]
expect = [ { at = "count", visible = "all", current = "none", value = { count = "@count.count" } }, { exit = "SIGSEGV" } ]

[cases.control]
does = "another order"
probes = false
steps = [ { cuInit = {} }, { cuDeviceGetCount = {}, label = "count" } ]
"#;

fn good() -> Scenario {
    load_scenario("subject/good", "good.toml", GOOD, &[]).unwrap_or_else(|errors| {
        let lines: Vec<String> = errors
            .iter()
            .map(|error| error.render(GOOD, false))
            .collect();
        panic!("{}", lines.join("\n"))
    })
}

#[test]
fn messages_that_people_paste_are_kept_as_they_are() {
    let source = GOOD.replace("repeat = 3", "repeat = 3\nsays = [\"it did not work\"]");
    assert_eq!(
        load_scenario("subject/good", "good.toml", &source, &[])
            .unwrap()
            .says,
        ["it did not work"]
    );
}

#[test]
fn what_a_file_leaves_out_has_a_default() {
    let scenario = good();
    assert_eq!(
        (
            scenario.repeat,
            scenario.step_timeout_ms,
            scenario.timeout_ms
        ),
        (3, 30_000, 120_000)
    );
    assert_eq!(scenario.needs.gpus, 2);
    assert!(scenario.says.is_empty());
    let cases = &scenario.instances[0].cases;
    assert_eq!((cases[0].gpus, cases[1].gpus), (Gpus::All, Gpus::Masked(2)));
    assert_eq!((cases[0].probes, cases[1].probes), (true, false));
    assert_eq!(scenario.sha256.len(), 64);
}

#[test]
fn instances_have_their_values_filled_in() {
    let scenario = good();
    let names: Vec<&str> = scenario
        .instances
        .iter()
        .map(|instance| instance.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "subject/good[query=cuDriverGetVersion]",
            "subject/good[query=cudaDriverGetVersion]"
        ]
    );
    let trap = &scenario.instances[1].cases[0];
    assert_eq!(trap.does, "cudaDriverGetVersion first");
    assert_eq!(trap.steps[0].call, "cudaDriverGetVersion");
}

#[test]
fn steps_have_labels_lines_and_typed_arguments() {
    let scenario = good();
    let steps = &scenario.instances[0].cases[0].steps;
    let labels: Vec<&str> = steps.iter().map(|step| step.label.as_str()).collect();
    assert_eq!(labels[..3], ["cuDriverGetVersion", "cuInit", "cuInit#2"]);
    assert_eq!(steps[0].line, 24);
    assert_eq!(steps[5].on.as_deref(), Some("B"));
    assert_eq!(steps[6].args["bytes"], Scalar::Int(2 << 30));
    assert_eq!(steps[8].args["device"], Scalar::Text("${gpus}".to_string()));
    assert_eq!(steps[6].bind.as_deref(), Some("p"));
    assert_eq!(steps[3].args["value"], Scalar::Text("${gpu1}".to_string()));
}

#[test]
fn checks_are_read() {
    let scenario = good();
    let instance = &scenario.instances[0];
    let count = Matcher {
        ge: Some(Operand::Int(1)),
        lt: Some(Operand::Int(1024)),
        ..Matcher::default()
    };
    assert_eq!(instance.effect[0].facts.value["count"], count);
    assert_eq!(instance.effect[0].facts.memory["gpu0"], [Class::Context]);
    assert_eq!(instance.effect[0].line, 11);
    assert_eq!(instance.effect[1].facts.exit, Some(ExitCheck::Code(0)));
    assert_eq!(
        instance.cases[0].expect[0].facts.visible,
        Some(GpuList::All)
    );
    let reference = Operand::Value {
        label: "count".to_string(),
        name: "count".to_string(),
    };
    assert_eq!(
        instance.cases[0].expect[0].facts.value["count"],
        Matcher::equal_to(reference)
    );
    assert_eq!(instance.expect[0].verdict, Expected::Reproduced);
}

#[test]
fn no_text_makes_the_loader_panic() {
    // A third of all prefixes, and of all files with one character removed: all of them take ten seconds.
    for at in (0..GOOD.len()).step_by(3) {
        if let Some(prefix) = GOOD.get(..at) {
            for error in load_scenario("a/b", "f", prefix, &[])
                .err()
                .unwrap_or_default()
            {
                error.render(prefix, false);
            }
        }
        let mut text = GOOD.to_string();
        text.remove(at);
        let _ = load_scenario("a/b", "f", &text, &[]);
    }
}

#[test]
fn a_file_of_thousands_of_errors_is_refused_at_once() {
    let steps = "{cuX={}},".repeat(4_000);
    let facts: String = (0..4_000).map(|n| format!("k{n}=1,")).collect();
    let head = "question = \"Q?\"\nbelief = \"F\"\nno_control = \"N\"\n";
    for (effect, steps) in [("", steps.as_str()), (facts.as_str(), "")] {
        let effect = format!("effect = [{{ {effect} }}]");
        let source = format!("{head}{effect}\n[cases.trap]\ndoes = \"x\"\nsteps = [{steps}]\n");
        // This took minutes when each error searched all others and the whole file.
        let errors =
            load_scenario("many", "many.toml", &source, &[]).expect_err("it is full of errors");
        let shown: usize = errors
            .iter()
            .map(|error| error.render(&source, false).len())
            .sum();
        assert!(
            errors.len() <= 101 && shown < 1 << 20,
            "{} errors in {shown} bytes",
            errors.len()
        );
        assert!(
            errors
                .iter()
                .any(|error| error.message.contains("not shown"))
        );
    }
}

#[test]
fn python_lines_are_read_with_their_names_and_filled_in() {
    const LINES: &str = r#"question = "Is it so?"
belief = "It is."
no_control = "one case is enough here"
effect = [ { at = "ask", status = ["OK", "RuntimeError"], value = { two = 2 }, calls = { cuMemAllocAsync_ptsz = 0 } } ]
[parameters]
count = ["2", "3"]
[cases.trap]
does = "asks"
python = { needs = ["torch >= 2.0"] }
env = { LOCAL_RANK = "${count}" }
steps = [
  { pthread_create = { as = "B" } },
  { py = "ask(${count}, '${gpu0}')", on = "B" },
  { py = "1 + 1", as_value = "two", varies = true, label = "ask" },
]
"#;
    let scenario = load_scenario("subject/lines", "lines.toml", LINES, &[]).unwrap();
    assert!(scenario.has_python_lines() && scenario.hazards.is_empty());
    let case = &scenario.instances[1].cases[0];
    assert_eq!(
        case.python,
        Some(Python {
            needs: vec!["torch >= 2.0".into()]
        })
    );
    assert_eq!(case.env["LOCAL_RANK"], "3");
    let (line, ask) = (&case.steps[1], &case.steps[2]);
    assert_eq!(line.python_line(), Some("ask(3, '${gpu0}')"));
    assert_eq!(
        (line.label.as_str(), line.on.as_deref(), line.line),
        ("py", Some("B"), 13)
    );
    let text = |name: &str| ask.args.get(name).map(ToString::to_string);
    assert_eq!(
        (text("as_value").as_deref(), text("varies").as_deref()),
        (Some("two"), Some("1"))
    );
    assert_eq!(scenario.instances[0].cases[0].steps[0].python_line(), None);
}

#[test]
fn what_holds_for_every_expectation_is_said_once() {
    const SHARED: &str = r#"question = "Is it so?"
belief = "It is."
no_control = "one case is enough here"
effect = [ { at = "ask", status = "OK" } ]
expect_when = { packages = ["torch >= 2.11"], driver = ">= 525" }
expect = [ { verdict = "reproduced", when = { driver = ">= 580" }, because = "measured" } ]
[cases.trap]
does = "asks"
python = {}
steps = [ { py = "1 + 1", as_value = "two", label = "ask" } ]
expect = [ { at = "ask", value = { two = 2 } } ]
"#;
    let scenario = load_scenario("subject/shared", "shared.toml", SHARED, &[]).unwrap();
    let instance = &scenario.instances[0];
    let (verdict, check) = (&instance.expect[0].when, &instance.cases[0].expect[0].when);
    let driver = |when: &When| when.driver.as_ref().map(|range| range.0.clone());
    assert_eq!(
        (driver(verdict).as_deref(), driver(check).as_deref()),
        (Some(">= 580"), Some(">= 525"))
    );
    assert!(
        [verdict, check]
            .iter()
            .all(|when| when.packages == ["torch >= 2.11"])
    );
    assert!(
        instance.effect[0].when.is_empty(),
        "the effect is no expectation"
    );
    let wrong = load_scenario(
        "subject/shared",
        "shared.toml",
        &SHARED.replace("torch >= 2.11", "torch ~= 2"),
        &[],
    );
    assert!(wrong.unwrap_err()[0].message.contains("is not a package"));
}
