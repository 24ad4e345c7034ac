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
    /// Calls that returned the status. Calls that the library does not have are missing.
    pub calls: Vec<String>,
    /// The status as a number; the version for `driver version`, the number of GPUs for `NVML counts`.
    pub code: u32,
    /// Status by its C name; as text for `driver version` and `NVML counts`.
    pub status: String,
}

/// The place where a version is reported instead of a status.
const VERSION: &str = "driver version";

impl Returned {
    /// Returns a status at a place.
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

    /// Returns the library that returns it: libcuda, or in older documents NVML.
    pub fn library(&self) -> CallLibrary {
        library(&self.calls)
    }

    /// Returns the value in the format of the forwarding libcuda's setting.
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
