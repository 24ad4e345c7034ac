//! The tests, as one program: it is linked once, and its tests share the cores. `cargo test --test suite -- trace::`
//! runs those of one file. `Cargo.toml` lists the files that are separate programs, with the reasons.

mod common;

// The simulated driver's files, compiled into `mask`: a process for each mask would take hours.
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "the simulated driver's own files, of which this needs a part"
)]
#[path = "."]
mod machine {
    #[path = "../src/fake/sim/machine/gpu.rs"]
    pub mod gpu;
}
#[allow(
    missing_docs,
    unreachable_pub,
    reason = "the simulated driver's own file"
)]
#[path = "."]
mod model {
    #[path = "../src/fake/sim/model/mask.rs"]
    pub mod mask;
}

mod action;
mod answers;
mod calls;
mod claims;
mod cli;
mod commit;
mod compare;
mod contradictions;
mod doctor;
mod duration;
mod evidence;
#[path = "export/main.rs"]
mod export;
#[path = "falsifiable/main.rs"]
mod falsifiable;
#[path = "figures/main.rs"]
mod figures;
mod fleet;
mod fleet_docs;
mod fleet_page;
mod fleet_truth;
#[path = "fuzz/main.rs"]
mod fuzz;
mod held;
mod hostile;
mod hostile_texts;
mod injection;
mod interrupted;
mod judged;
mod kernels;
mod mask;
mod mask_vectors;
mod numbers;
mod odd;
mod own_runs;
mod packaging;
mod plugin;
mod published;
mod python;
mod python_mask;
#[path = "readme/main.rs"]
mod readme;
mod redacted;
mod refused;
mod refused_calls;
mod rejected;
mod releases;
mod replay;
mod report_page;
mod repository;
mod sarif;
mod schema;
mod selectors;
mod store;
mod supervisor;
mod surroundings;
mod survey_python;
mod surveys;
#[path = "sweep/main.rs"]
mod sweep;
mod tenancy;
mod trace;
mod trace_page;
mod trace_stderr;
mod traced;
mod traced_run;
mod traces;
mod umask;
mod who;
mod without_gpu;
