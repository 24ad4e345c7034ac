//! The tests, as one program: it is linked once, and its tests share the cores. `cargo test --test suite -- trace::`
//! runs those of one file. `Cargo.toml` says which files are programs of their own, and why.

mod common;

mod action;
mod agreement;
mod answers;
mod calls;
mod cli;
mod commit;
mod compare;
mod diagnosed;
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
mod fleet_truth;
mod forked;
mod held;
mod hostile;
mod injection;
mod interrupted;
mod judged;
mod mask_vectors;
mod numbers;
mod own_runs;
mod packaging;
mod plugin;
mod python;
mod python_mask;
#[path = "readme/main.rs"]
mod readme;
mod refused;
mod rejected;
mod releases;
mod replay;
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
mod traced;
mod traced_run;
mod traces;
mod without_gpu;
