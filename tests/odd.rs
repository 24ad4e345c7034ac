//! GPUs with less information from NVML: no memory, no list of processes, a MIG instance, memory that remains
//! allocated. Each command reports what it cannot determine, and concludes nothing from it.

use std::path::Path;

use cuda_pitfalls::verdict::{Kind, Reason};

use crate::common::traced::MAKES_A_CONTEXT;
use crate::common::{PROGRAM, Ran, Scratch, names_in, part};

const MEMORY: &str = "memory/context-cost";
const LIST: &str = "memory/second-process-is-garbled";
const MASK: &str = "visibility/empty-mask-hides-all";
const FORK: &str = "process/fork-after-cuinit";
/// Scenario that expects `NVML_SUCCESS` of a query of memory.
const QUERY: &str = "process/nvml-across-a-fork";

/// The machines, and NVML's answer there to a query of memory.
const MACHINES: [(&str, Option<&str>); 4] = [
    ("gb10", Some("NVML_ERROR_NOT_SUPPORTED")),
    ("thor", Some("NVML_ERROR_NOT_SUPPORTED")),
    ("mig", Some("NVML_ERROR_NO_PERMISSION")),
    ("gh200", None),
];

/// Returns `true` if a text contains a placeholder that looks like a measured figure.
fn has_made_up_figure(text: &str) -> bool {
    [
        " costs 0", " 0 B", " 0 MiB", "+0 MiB", "None", "NaN", "panicked",
    ]
    .iter()
    .any(|figure| text.contains(figure))
}

/// Renders a document in all formats.
fn rendered(scratch: &Scratch, document: &str, forms: &[&str]) -> Vec<String> {
    forms
        .iter()
        .map(|form| scratch.run(&["render", document, "--as", form]).stdout)
        .collect()
}

/// Runs scenarios on a machine, and checks what is concluded and printed. `error` is NVML's answer to a query of memory.
fn conclude_without_memory(machine: &str, error: Option<&str>) {
    let scratch = Scratch::new();
    let (ran, report) = scratch.simulate(
        &format!("sim:{machine}"),
        &[MEMORY, LIST, MASK, FORK, QUERY],
        &["--quick"],
    );
    assert_eq!(ran.code, Some(3), "{machine}: {ran:#?}");
    let found = [MEMORY, LIST, MASK, FORK].map(|name| &part(&report, name).verdict);
    assert_eq!(
        (found[0].kind, found[0].reason),
        (Kind::Inconclusive, Some(Reason::Uncalibrated)),
        "{machine}"
    );
    assert_eq!(
        (found[1].kind, found[1].reason),
        (Kind::Inconclusive, Some(Reason::Unobservable)),
        "{machine}"
    );
    // These need no memory. An instance that CUDA shows and NVML does not list is expected.
    assert_eq!(
        [found[2], found[3]].map(|verdict| verdict.kind),
        [Kind::Reproduced; 2],
        "{machine}"
    );
    let Some(error) = error else { return };
    let document = scratch
        .folder()
        .expect("a report")
        .join("report.json")
        .to_string_lossy()
        .into_owned();
    let forms = [
        "text",
        "text-full",
        "html",
        "markdown",
        "junit",
        "prometheus",
        "github",
        "compact",
    ];
    let rendered = rendered(&scratch, &document, &forms);
    for (text, form) in rendered.iter().zip(forms) {
        assert!(
            !text.is_empty() && !has_made_up_figure(text),
            "{machine} as {form}: {text}"
        );
    }
    assert!(rendered[2].contains(error) && rendered[0].contains("Context size: unknown."));
    let merged = scratch.run(&[
        "fleet",
        "merge",
        &document,
        "--simulated",
        "--out",
        &scratch.at("fleet.json"),
    ]);
    assert!(
        !has_made_up_figure(&merged.stdout),
        "{machine}: {merged:#?}"
    );
}

#[test]
fn nothing_follows_from_memory_that_nvml_does_not_tell() {
    std::thread::scope(|scope| {
        for (machine, error) in MACHINES {
            scope.spawn(move || conclude_without_memory(machine, error));
        }
    });
}

#[test]
fn a_mask_is_not_against_the_rule_where_nvml_lists_no_instance() {
    let scratch = Scratch::new();
    let ran = scratch.run(&[
        "survey",
        "mask",
        "0",
        "--on",
        "sim:mig",
        "--quick",
        "--out",
        &scratch.at("survey"),
    ]);
    assert!(
        ran.code != Some(1) && !ran.stdout.contains("against the rule"),
        "{ran:#?}"
    );
    scratch
        .run(&["mask", "0", "--gpus", "sim:mig"])
        .ended(4, "nothing_measured")
        .says("MIG is on");
}

fn traced(scratch: &Scratch, machine: &str, more: &[&str]) -> (Ran, String) {
    let (on, out) = (format!("sim:{machine}"), scratch.at(machine));
    let first = ["trace", "--on", &on, "--out", &out, "--memory"];
    let ran = scratch.run(&[&first[..], more, &["--", "python3", "-c", MAKES_A_CONTEXT]].concat());
    let run = names_in(&out).pop().expect("a trace");
    (
        ran,
        Path::new(&out)
            .join(run)
            .join("trace.ndjson")
            .to_string_lossy()
            .into_owned(),
    )
}

#[test]
fn a_policy_that_needs_memory_is_not_decided_without_it() {
    let scratch = Scratch::new();
    let mut traces = Vec::new();
    for (machine, error) in MACHINES {
        let Some(_) = error else { continue };
        let (ran, trace) = traced(&scratch, machine, &["--max-bytes", "gpu0=1GiB"]);
        ran.ended(3, "inconclusive")
            .join_lines()
            .says("memory not known")
            .says("was not read before the program began");
        traces.push(trace.clone());
        if machine == "gb10" {
            continue;
        }
        for form in ["text", "html", "markdown", "junit", "github", "sarif"] {
            let text = rendered(&scratch, &trace, &[form]).concat();
            assert!(!has_made_up_figure(&text), "{machine} as {form}: {text}");
        }
        for forbidden in ["unattributed>64MiB", "owner=nccl>1GiB"] {
            let (ran, _) = traced(&scratch, machine, &["--forbid", forbidden]);
            ran.ended(3, "inconclusive").says("NVML could not be read");
        }
    }
    let (ran, _) = traced(&scratch, "mig", &["--forbid", "context:gpu0"]);
    ran.ended(3, "inconclusive")
        .says("created a context is unknown");
    let compared = scratch.run(&["compare", &traces[0], &traces[1]]);
    assert!(!compared.stdout.contains("-> 0"), "{compared:#?}");
}

#[test]
fn doctor_says_what_nvml_does_not_tell() {
    let scratch = Scratch::new();
    for (machine, error) in MACHINES {
        let ran = scratch
            .run(&["doctor", "--on", &format!("sim:{machine}")])
            .good();
        assert_eq!(
            ran.stdout.contains("Not known"),
            error.is_some(),
            "{ran:#?}"
        );
        assert!(ran.stdout.contains(error.unwrap_or_default()), "{ran:#?}");
        assert!(
            !ran.stdout.contains("Not shown"),
            "an instance is shown: {ran:#?}"
        );
    }
    // The memory of a process is known from NVML's list alone.
    let looks = format!("sleep 60 & {PROGRAM} who $!; kill $!");
    for (machine, says) in [
        ("thor", "NVML_ERROR_NOT_SUPPORTED"),
        ("gb10", "none by CUDA"),
    ] {
        scratch
            .run(&["sim", "--machine", machine, "--", "sh", "-c", &looks])
            .prints(says);
    }
}
