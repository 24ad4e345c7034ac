//! A status that a forwarding library returns by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cuda_pitfalls_calls::{CallLibrary, status};

/// A status that a libcuda or an NVML returns at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// The place: `cuInit`, `count`, `context`, `allocation`, `launch`, `driver version`; `NVML init`, `NVML count`,
    /// `NVML handle`, `NVML counts`.
    pub place: String,
    /// The calls that returned it; those that the library does not have were not there.
    pub calls: Vec<String>,
    /// The status as a number; of `driver version` the version, of `NVML counts` the number of GPUs.
    pub code: u32,
    /// The status by its C name; in words for `driver version` and `NVML counts`.
    pub status: String,
}

/// The place at which no status is returned but a version is told.
const VERSION: &str = "driver version";

impl Returned {
    /// A status at a place.
    pub fn new(place: &str, calls: &[String], code: u32) -> Returned {
        let status = match place {
            VERSION => format!("CUDA {}.{}", code / 1000, code % 1000 / 10),
            _ => {
                let name = status::name(library(calls), i64::from(code));
                name.map_or_else(|| code.to_string(), str::to_string)
            }
        };
        Returned {
            place: place.to_string(),
            calls: calls.to_vec(),
            code,
            status,
        }
    }

    /// The library that returns it: libcuda, or in older documents NVML.
    pub fn library(&self) -> CallLibrary {
        library(&self.calls)
    }

    /// As the forwarding libcuda is told.
    pub fn told(&self) -> String {
        let each: Vec<String> = self
            .calls
            .iter()
            .map(|call| format!("{call}={}", self.code))
            .collect();
        each.join(" ")
    }
}

fn library(calls: &[String]) -> CallLibrary {
    let is_nvml = calls.first().is_some_and(|call| call.starts_with("nvml"));
    if is_nvml {
        CallLibrary::Nvml
    } else {
        CallLibrary::Driver
    }
}
