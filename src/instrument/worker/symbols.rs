//! Function addresses, all looked up before step 1, so that a missing one is an unmet need and not
//! an error at step 7.

use std::collections::HashMap;

use cuda_pitfalls_calls::{self as calls, CallLibrary};

use super::library;

/// What the probes between steps call.
pub(super) const PROBES: [&str; 5] =
    ["cuDeviceGetCount", "cuDeviceGetUuid_v2", "cuDevicePrimaryCtxGetState", "cuCtxGetCurrent", "cuCtxGetDevice"];

/// Addresses by C name.
pub(super) struct Symbols {
    addresses: HashMap<&'static str, usize>,
}

impl Symbols {
    /// Looks up what the calls and the probes need, and says what is not there.
    ///
    /// Opening a library here makes no call into it; whether opening alone changes anything is a
    /// question that a scenario answers, not an assumption.
    pub(super) fn resolve(wanted: &[String], probes: bool) -> (Symbols, Vec<String>) {
        let mut addresses = HashMap::new();
        let mut missing = Vec::new();
        let probed = PROBES.iter().copied().filter(|_| probes);
        for name in wanted.iter().map(String::as_str).chain(probed) {
            let Some(call) = calls::find(name) else { continue };
            if call.library == CallLibrary::Harness || addresses.contains_key(call.name) {
                continue;
            }
            match library::address(call.library, call.name) {
                Ok(address) => {
                    addresses.insert(call.name, address);
                }
                Err(what) => {
                    let what = what.to_string();
                    if !missing.contains(&what) {
                        missing.push(what);
                    }
                }
            }
        }
        (Symbols { addresses }, missing)
    }

    /// The address of a function that was resolved.
    pub(super) fn address(&self, name: &str) -> Option<usize> {
        self.addresses.get(name).copied()
    }
}
