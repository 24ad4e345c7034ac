//! The addresses of functions. All are resolved before step 1, so that a missing function is an unmet need, not an
//! error at a later step.

use std::collections::HashMap;

use cuda_pitfalls_calls::{self as calls, CallLibrary};

use super::library;

pub(super) const PROBES: [&str; 5] = [
    "cuDeviceGetCount",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxGetState",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
];

pub(super) struct Symbols {
    addresses: HashMap<&'static str, usize>,
}

impl Symbols {
    /// Resolves the functions of the given calls and of the probes. Returns them, and the names that were not found.
    ///
    /// Opening a library makes no call into it. This code does not assume that opening alone changes nothing: a
    /// scenario tests it.
    pub(super) fn look_up(wanted: &[String], probes: bool) -> (Symbols, Vec<String>) {
        let mut addresses = HashMap::new();
        let mut missing = Vec::new();
        let probed: &[&str] = if probes { &PROBES } else { &[] };
        for name in wanted
            .iter()
            .map(String::as_str)
            .chain(probed.iter().copied())
        {
            let Some(call) = calls::find(name) else {
                continue;
            };
            if call.library == CallLibrary::Harness || addresses.contains_key(call.name) {
                continue;
            }
            match library::address(call.library, call.name) {
                Ok(address) => {
                    addresses.insert(call.name, address);
                }
                Err(error) => {
                    let description = error.to_string();
                    if !missing.contains(&description) {
                        missing.push(description);
                    }
                }
            }
        }
        (Symbols { addresses }, missing)
    }

    /// Returns the address of a function, if it was resolved.
    pub(super) fn address(&self, name: &str) -> Option<usize> {
        self.addresses.get(name).copied()
    }
}
