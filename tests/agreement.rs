//! Every reader of a trace says the same of it: which programs initialised CUDA, what each `cuInit` read, and which write
//! came too late.

use crate::common;

use std::fs;
use std::time::Duration;

use common::traced::{has, traced};
use common::{Scratch, root};
use cuda_pitfalls::diagnosis::{self, Finding};
use cuda_pitfalls::policy::{Policy, PolicyOutcome};
use cuda_pitfalls::render::trace as render;
use cuda_pitfalls::trace::{History, Trace};
use cuda_pitfalls::{compare, text};

/// What a program of `tests/traced` does: the mask of each `cuInit` that counts, and the late writes.
struct Expected {
    program: &'static str,
    masks: &'static [&'static str],
    late: &'static [&'static str],
}

const PROGRAMS: [Expected; 4] = [
    Expected { program: "second_init.py", masks: &["1"], late: &["0"] },
    Expected { program: "exec_sets_mask.py", masks: &["(unset)", "1"], late: &[] },
    Expected { program: "exec_in_thread.py", masks: &["(unset)", "(unset)"], late: &[] },
    Expected { program: "late_mask.py", masks: &["(unset)"], late: &["1"] },
];

/// Traces a program on the simulated machine.
fn trace(program: &str) -> Trace {
    let (scratch, script) = (Scratch::new(), root().join(traced(program)));
    let out = scratch.path().join("traces").to_string_lossy().into_owned();
    let script = script.to_string_lossy().into_owned();
    let words = ["trace", "--on", "sim:h200-x2", "--out", &out, "--", "python3", &script];
    let mut command = scratch.command(&words);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("CUDA_VISIBLE_DEVICES");
    scratch.start(command).wait(Duration::from_secs(120));
    let folder = fs::read_dir(&out).expect("a folder").flatten().next().expect("a trace").path();
    Trace::open(&folder).unwrap_or_else(|error| panic!("{error}"))
}

fn forms(trace: &Trace, found: &[Finding]) -> [(&'static str, String); 3] {
    let outcome = PolicyOutcome::default();
    [
        ("text", render::text(trace, found, &outcome, 10_000)),
        ("html", render::html(trace, found, &outcome)),
        ("markdown", render::markdown(trace, found, &outcome)),
    ]
}

/// `--json`, text and pages: the processes that initialised CUDA, and their masks.
fn masks_agree(expected: &Expected, trace: &Trace, found: &[Finding]) {
    let json = render::json(trace, found, &PolicyOutcome::default());
    let processes = json["processes"].as_array().expect("a list").iter();
    let masks = processes.filter(|it| it["initialised"] == true);
    let masks: Vec<&str> = masks.map(|it| it["mask"]["value"].as_str().unwrap_or("(unset)")).collect();
    assert_eq!(masks, expected.masks, "{}: {json:#}", expected.program);
    for (form, shown) in forms(trace, found) {
        // Markdown escapes what it could take for its own.
        let shown = shown.replace('\\', "");
        for mask in expected.masks {
            let words = format!("CUDA_VISIBLE_DEVICES was read as {mask}");
            assert!(shown.contains(&words), "{}, {form}: {words}\n{shown}", expected.program);
        }
    }
    let violations = Policy::parse(&["cuinit".to_owned()], &[]).expect("a word").violations(trace, found);
    assert_eq!(violations.len(), expected.masks.len(), "{}: {violations:#?}", expected.program);
}

/// Rules, policies, text, pages and `compare`: the late writes, and how late each is.
fn late_writes_agree(expected: &Expected, trace: &Trace, found: &[Finding]) {
    let program = expected.program;
    let history = History::of(trace);
    let late: Vec<_> = history.writes.iter().filter(|write| write.is_late()).collect();
    assert_eq!(late.iter().filter_map(|write| write.value).collect::<Vec<_>>(), expected.late, "{program}");
    let of_rule: Vec<&Finding> = found.iter().filter(|finding| finding.rule == "late-mask").collect();
    assert_eq!(of_rule.len(), late.len(), "{program}: {found:#?}");
    let violations = Policy::parse(&["late-mask".to_owned()], &[]).expect("a word").violations(trace, found);
    assert_eq!(violations.len(), late.len(), "{program}: {violations:#?}");
    for (write, finding) in late.iter().zip(of_rule) {
        let late_ns = write.after_init_ns.expect("it is late");
        assert!(finding.says.contains(&text::units::duration(late_ns)), "{program}: {late_ns}, {}", finding.says);
    }
    for (form, shown) in forms(trace, found) {
        let told = late.iter().map(|write| text::units::duration(write.after_init_ns.expect("it is late")));
        for late in told {
            assert!(shown.contains(&format!("{late} too late: no effect")), "{program}, {form}: {late}: {shown}");
        }
        assert_eq!(shown.contains("too late: no effect"), !late.is_empty(), "{program}, {form}: {shown}");
    }
    // What a trace without events lacks is a difference.
    let other = Trace { events: Vec::new(), ..trace.clone() };
    let compared = compare::traces([trace, &other], [found, &[]]);
    let names = compared.changed.iter().chain(&compared.explained).map(|difference| difference.name.as_str());
    let names: Vec<&str> = names.collect();
    let writes: Vec<&&str> = names.iter().filter(|name| name.contains("write of CUDA_VISIBLE_DEVICES")).collect();
    assert_eq!(writes.len(), expected.late.len(), "{program}: {names:#?}");
    for value in expected.late {
        assert!(writes.iter().any(|name| name.contains(&format!("CUDA_VISIBLE_DEVICES={value},"))), "{writes:?}");
    }
}

#[test]
fn every_reader_says_the_same_of_what_cuinit_read_and_of_late_writes() {
    if !has("python3") {
        return;
    }
    for expected in &PROGRAMS {
        let trace = trace(expected.program);
        let found = diagnosis::findings(&trace);
        masks_agree(expected, &trace, &found);
        late_writes_agree(expected, &trace, &found);
        let itself = compare::traces([&trace, &trace], [&found, &found]);
        assert!(itself.changed.is_empty() && itself.explained.is_empty(), "{}: {itself:#?}", expected.program);
    }
}

/// What the program before an `exec` read is compared too.
#[test]
fn a_comparison_has_the_programs_before_and_after_an_exec() {
    if !has("python3") {
        return;
    }
    let [mask, none] = ["exec_sets_mask.py", "exec_in_thread.py"].map(trace);
    let compared = compare::traces([&mask, &none], [&[], &[]]);
    let init = compared.changed.iter().find(|difference| difference.name == "cuInit").expect("cuInit differs");
    let changes: Vec<(&str, &str)> = init
        .changes
        .iter()
        .filter(|change| change.fact == "CUDA_VISIBLE_DEVICES")
        .map(|change| (change.a.as_str(), change.b.as_str()))
        .collect();
    assert_eq!(changes, [("(unset), 1", "(unset)")]);
}

#[test]
fn the_variables_that_cuinit_reads_are_those_that_the_survey_measured() {
    let variables = cuda_pitfalls::summary::embedded().variables;
    let at_init = variables.iter().filter(|facts| facts.read_at.as_deref() == Some("cuInit"));
    let mut measured: Vec<&str> = at_init.map(|facts| facts.variable.as_str()).collect();
    let mut listed = cuda_pitfalls::trace::history::READ_BY_CUINIT.to_vec();
    measured.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, measured);
}
