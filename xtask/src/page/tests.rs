use super::*;
use cuda_pitfalls::scenario::load;

const SOURCE: &str = r#"# A count looks harmless.
question = "Does cudaGetDeviceCount read CUDA_VISIBLE_DEVICES?"
belief = "No."
answer   = "Yes, since libcudart 12.0. More is in the table."
workaround   = "Set the mask first."
tags     = ["A02", "mask"]
symptoms = ["mask-ignored"]
sources  = ["https://example.org/1", "a talk"]
needs    = { gpus = 2 }
gpus     = "all"
hazards  = ["fault"]
effect   = [{ at = "count", value = { count = "${gpus}" }, memory = { gpu0 = "context" } }, { exit = 0 }]
expect   = [
  { verdict = "reproduced", when = { libcudart = ">= 12.0" }, because = "it calls cuInit" },
  { verdict = "not_reproduced", because = "it did not before" },
]

[cases.trap]
does  = "count, then setenv"
steps = [
  { cudaGetDeviceCount = {} },
  { setenv = { name = "CUDA_VISIBLE_DEVICES", value = "${gpu1}" } },
  { cuInit = {} },
  { cuDeviceGetCount = {}, label = "count" },
]

[cases.control]
does  = "setenv, then allocate"
steps = [
  { setenv = { name = "CUDA_VISIBLE_DEVICES", value = "1" } },
  { cudaMalloc = { bytes = "2 MiB", as = "p" } },
  { cuDeviceGetCount = {}, label = "count" },
]
"#;

fn scenario(source: &str) -> Scenario {
    load("visibility/mask", "mask.toml", source, &[]).unwrap()
}

#[test]
fn a_page_says_what_the_file_says() {
    let page = page(&scenario(SOURCE), &[], &[]);
    for part in [
        "\n# Does `cudaGetDeviceCount` read `CUDA_VISIBLE_DEVICES`?\n",
        "\n**Short answer.** Yes, since libcudart 12.0. More is in the table.\n",
        "\nOften met as: [`CUDA_VISIBLE_DEVICES` is ignored](../README.md#mask-ignored).\n",
        "\n- After `count`: count is the number of GPUs, and memory of gpu0 has changed by about one context.\n",
        "\n- The process exits with 0.\n",
        "\n## Why\n\nA count looks harmless.\n",
        "\n## The order that works\n\nSet the mask first.\n",
        "\n|  | trap: count, then `setenv` | control, which works: `setenv`, then allocate |\n",
        "\n| 2 | `setenv(name = CUDA_VISIBLE_DEVICES, value = UUID of gpu1)` | `p = cudaMalloc(bytes = 2 MiB)` |\n",
        "\n| 4 | `cuDeviceGetCount()` ← `count` |  |\n",
        "\n- Since libcudart 12.0 the pitfall shows: it calls `cuInit`.\n- Otherwise the pitfall does not show: it did not before.\n",
        "\n## Measured\n\nNot measured yet.\n",
        "\n## Sources\n\n- <https://example.org/1>\n- a talk\n",
        "\ncuda-pitfalls run visibility/mask --allow fault\n",
        "](../../../scenarios/visibility/mask.toml)",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}

#[test]
fn what_nobody_answered_is_not_called_a_trap() {
    let cut = |from: &str, to: &str| {
        let (start, end) = (SOURCE.find(from).unwrap(), SOURCE.find(to).unwrap());
        format!("{}{}", &SOURCE[..start], &SOURCE[end..])
    };
    let page = page(&scenario(&cut("expect ", "[cases.trap]").replace("answer ", "# ")), &[], &[]);
    assert!(page.contains("**Short answer.** Not measured yet.") && page.contains("## What to look for"), "{page}");
    assert!(!page.contains("Since which version") && !page.contains("which works"), "{page}");
}

#[test]
fn the_index_leads_from_what_is_seen_to_the_page() {
    let index = index(&[scenario(SOURCE)]);
    for part in [
        "\n- [`CUDA_VISIBLE_DEVICES` is ignored](#mask-ignored)\n",
        "\n<a id=\"mask-ignored\"></a>\n\n## `CUDA_VISIBLE_DEVICES` is ignored\n\n- [Does `cudaGetDeviceCount`",
        " *Fix:* Set the mask first.\n",
    ] {
        let joined = index.replace("\n  ", " ");
        assert!(index.contains(part) || joined.contains(part), "{part:?} is not in\n{index}");
    }
}

const LINES: &str = r#"# People ask before they choose.
question = "Does `torch.cuda.is_available()` make a context?"
belief = "It is only a question."
symptoms = ["stray-memory-gpu0"]
gpus = "all"
effect = [{ at = "ask", contexts = ["gpu0"] }]

[cases.trap]
does = "asks"
python = { needs = ["torch >= 2.0"] }
steps = [
  { py = "import torch" },
  { setenv = { name = "CUDA_VISIBLE_DEVICES", value = "${gpu1}" } },
  { py = "torch.cuda.is_available()", as_value = "available", label = "ask" },
]

[cases.control]
does = "does not ask"
python = { needs = ["torch >= 2.0"] }
steps = [ { py = "x = '```'", label = "ask" } ]
"#;

#[test]
fn python_lines_stand_on_the_page_as_programs() {
    let page = page(&scenario(LINES), &[], &[]);
    for part in [
        "\nTrap: asks (all GPUs).\n\n```python\nimport torch\nos.environ[\"CUDA_VISIBLE_DEVICES\"] = \"UUID of gpu1\"\ntorch.cuda.is_available()  # [ask]\n```\n",
        "\nControl: does not ask (all GPUs).\n\n````python\nx = '```'  # [ask]\n````\n",
        "\nIt needs 1 GPU, torch >= 2.0. The lines and checks:\n",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    assert!(!page.contains("py()"), "{page}");
}

#[test]
fn what_was_measured_of_a_line_stands_beneath_it() {
    let scenario = scenario(LINES);
    let case = &scenario.instances[0].cases[0];
    let planned = serde_json::json!({
        "name": "trap", "does": "asks", "mask": null, "env": {}, "probes": true, "expect": [],
        "python": case.python, "steps": case.steps,
    });
    let plan = serde_json::json!({
        "repeat": 5, "step_timeout_ms": 1, "timeout_ms": 1, "gpus": ["GPU-0"], "used_gpus": 1,
        "needs": scenario.needs, "hazards": [], "parameters": {}, "nondeterministic": false,
        "effect": scenario.instances[0].effect, "expect": [], "cases": [planned],
    });
    let step = |label: &str, more: serde_json::Value| {
        let mut step = serde_json::json!({
            "label": label, "returned": true, "status": { "code": 0, "name": "OK" }, "elapsed_ns": 1,
            "initialised": true, "visible": ["gpu0"], "contexts": [], "current": "none", "memory": {},
        });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    };
    let steps = [
        step("py", serde_json::json!({ "calls": {} })),
        step("setenv", serde_json::json!({ "status": null })),
        step(
            "ask",
            serde_json::json!({
                "calls": { "cuInit": 1, "cuDeviceGet": 2 }, "contexts": ["gpu0"], "values": { "available": "True" },
            }),
        ),
    ];
    let part = serde_json::json!({
        "name": scenario.name, "scenario": scenario.name, "question": scenario.question, "tags": [],
        "parameters": {}, "sha256": "", "libcudart": null, "plan": plan,
        "verdict": {
            "kind": "reproduced", "reason": null, "detail": "", "expectation": "no_expectation", "provenance": "measured",
        },
        "cases": [{
            "name": "trap", "attempts": [],
            "outcomes": [{ "count": 5, "observation": { "steps": steps, "end": "0" } }],
        }],
    });
    let machine = serde_json::json!({
        "driver_version": "580.159.04", "cuda_driver_version": 13000, "nvml_version": null, "gpus": [], "libraries": [],
        "libcudart": [], "kernel": null, "architecture": "x86_64", "environment": {}, "mps": false,
        "isolation": { "pid_namespace": null, "container": null, "own_pid_listed": null },
        "python": {
            "executable": "/usr/bin/python3", "implementation": "cpython", "version": "3.12.3",
            "packages": { "torch": "2.9.0", "numba": "0.62.1" },
        },
    });
    let then = serde_json::json!({
        "kind": "not_reproduced", "reason": null, "detail": "", "expectation": "no_expectation", "provenance": "measured",
    });
    let measured = Measurement {
        report: "h200-x2".into(),
        started_at: "2026-01-01T00:00:00Z".into(),
        machine: serde_json::from_value(machine).unwrap(),
        alone: true,
        interrupted: true,
        then: serde_json::from_value(then).unwrap(),
        changed: Some("another effect"),
        part: serde_json::from_value(part).unwrap(),
    };
    let page = page(&scenario, &[measured], &[]);
    for part in [
        "\nMeasured with Python 3.12.3, torch 2.9.0 on driver 580.159.04. Other versions, newer ones too: not\nmeasured.\n",
        "\nThe answer rests on 5 attempts of each case in 1 run, which was interrupted, on 0 ×.\n",
        " | 580.159.04 | 3.12.3, torch 2.9.0 | 5, run interrupted | shows (as asked then: does not show; another effect) | ",
        "“As asked then” is",
        "driver 580.159.04, Python 3.12.3, torch 2.9.0\n([h200-x2]",
        "\nLine by line, the trap:\n\n```python\nimport torch\n",
        "\ntorch.cuda.is_available()  # [ask]\n#   available = True\n#   driver calls: cuInit, 2 that only ask\n#   contexts: gpu0\n```\n",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}
