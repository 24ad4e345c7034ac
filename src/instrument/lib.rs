//! The experiment: the worker that makes the calls, the sampler that reads NVML, the supervisor that starts both, and
//! the libraries that they use. The three are processes of one binary.

#![cfg(target_os = "linux")]

pub mod folder;
pub mod forwarding;
pub mod hook;
pub mod libraries;
pub mod mapped;
pub mod output;
pub mod sampler;
pub mod simulated;
pub mod supervisor;
pub mod traced;
pub mod worker;
