//! The experiment: the worker, which makes the calls; the sampler, which reads NVML; the supervisor, which starts both;
//! and the libraries that they use. Worker, sampler and supervisor are processes of one binary.

#![cfg(target_os = "linux")]

pub mod bounded;
pub mod examiner;
pub mod folder;
pub mod forwarding;
pub mod hook;
mod interrupt;
pub mod libraries;
pub mod mapped;
pub mod output;
pub mod sampler;
pub mod simulated;
mod speaker;
pub mod supervisor;
pub mod traced;
pub mod umask;
pub mod worker;
