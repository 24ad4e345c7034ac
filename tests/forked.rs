//! What a forked child of a process that only counted is told, as on 2x NVIDIA H200, driver 580.159.04:
//! the runtime remembers the count, and every other call says that the driver is not initialised.

use crate::common;

use std::fs;

use cuda_pitfalls::verdict::{ExpectationMet, Kind};

use common::Scratch;

const FILE: &str = r#"
question = "Does a forked child of a process that only counted get the count?"
belief = "It gets an error, as from every call."
no_control = "the simulated machine is under test"
effect   = [{ at = "child-count", status = "cudaSuccess", value = { count = 1 } }]
expect   = [{ verdict = "reproduced", because = "the runtime remembers it" }]

[cases.trap]
does  = "counts, forks, and counts in the child"
steps = [
  { cudaGetDeviceCount = {}, label = "count" },
  { fork = { as = "child" } },
  { cudaGetDeviceCount = {}, on = "child", label = "child-count" },
  { cudaSetDevice = { device = 0 }, on = "child", label = "child-set" },
  { cuInit = {}, on = "child", label = "child-init" },
  { cudaGetDeviceCount = {}, on = "child", label = "again" },
  { waitpid = { actor = "child" }, label = "wait" },
]
expect = [
  { at = "child-set", status = "cudaErrorInitializationError", because = "nothing else is remembered" },
  { at = "child-init", status = "CUDA_ERROR_NOT_INITIALIZED", because = "nor can it be made again" },
  { at = "again", status = "cudaSuccess", value = { count = 1 }, because = "an error in between changes nothing" },
]

[cases.uncounted]
does  = "initialises, forks, and counts in the child"
steps = [
  { cuInit = {}, label = "count" },
  { fork = { as = "child" } },
  { cudaGetDeviceCount = {}, on = "child", label = "child-count" },
  { waitpid = { actor = "child" }, label = "wait" },
]
expect = [
  { at = "child-count", status = "cudaErrorInitializationError", because = "nobody had counted" },
]
"#;

#[test]
fn a_forked_child_is_told_what_its_parent_counted_and_nothing_else() {
    let scratch = Scratch::new();
    let file = scratch.path().join("counted.toml");
    fs::write(&file, FILE).expect("a file");
    let (_, report) = scratch.simulate("sim:h200-x1", &[&file.to_string_lossy()], &["--quick"]);
    let verdict = &report.scenarios[0].verdict;
    assert_eq!(verdict.kind, Kind::Reproduced, "{}", verdict.detail);
    assert_eq!(verdict.expectation, ExpectationMet::AsExpected, "{:?}", verdict.unexpected);
}
