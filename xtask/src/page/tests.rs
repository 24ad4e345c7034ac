use super::*;
use cuda_pitfalls::scenario::load;

const SOURCE: &str = r#"# A count looks harmless.
question = "Does cudaGetDeviceCount read CUDA_VISIBLE_DEVICES?"
folklore = "No."
answer   = "Yes, since libcudart 12.0. More is in the table."
remedy   = "Set the mask first."
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
    let page = page(&scenario(SOURCE), &[]);
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
        "\ncargo run --release -- run visibility/mask --allow fault\n",
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
    let page = page(&scenario(&cut("expect ", "[cases.trap]").replace("answer ", "# ")), &[]);
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
        "\n- A02 [mask](visibility/mask.md)\n",
    ] {
        let joined = index.replace("\n  ", " ");
        assert!(index.contains(part) || joined.contains(part), "{part:?} is not in\n{index}");
    }
}
