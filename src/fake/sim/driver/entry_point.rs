//! Entry points by name, as the runtime and others look them up.

use crate::c;
use crate::model::status::{Outcome, SIM_NOT_MODELLED, code};
use crate::pointer::{InText, Out};
use crate::symbols::symbols;
use std::ffi::{CString, c_void};

/// What `cuGetProcAddress_v2` says of a name beside its status.
const FOUND: u32 = 0;
const NOT_FOUND: u32 = 1;

/// A name that several versions of a function have, and since when a version is what is meant.
const NEWER: [(&str, &str, i32); 2] =
    [("cuCtxCreate", "cuCtxCreate_v4", 13000), ("cuGetProcAddress", "cuGetProcAddress_v2", 12000)];

symbols! {
    /// A name that there is not is no error (the survey of calls).
    fn cuGetProcAddress_v2(name: InText, function: Out<*mut c_void>, version: i32, flags: u64, found: Out<u32>) =
        code(address_of(&name, version, flags).and_then(|address| {
            function.put(address.unwrap_or(std::ptr::null_mut()))?;
            // The last argument may be null.
            let _ = found.put(if address.is_some() { FOUND } else { NOT_FOUND });
            Ok(())
        }));

    /// What the older form answers to a name that there is not is not modelled.
    fn cuGetProcAddress(name: InText, function: Out<*mut c_void>, version: i32, flags: u64) =
        code(address_of(&name, version, flags).and_then(|address| function.put(address.ok_or(SIM_NOT_MODELLED)?)));
}

/// A function of this library by its name without a version. Per-thread default streams, which the flags ask for, are
/// not modelled.
fn address_of(name: &InText, version: i32, flags: u64) -> Outcome<Option<*mut c_void>> {
    if flags > 1 {
        return Err(SIM_NOT_MODELLED);
    }
    let name = name.name()?;
    // The library has the symbols of the runtime and of NVML, too, and the loader would look in libc for what is none
    // of them.
    if !name.starts_with("cu") || name.starts_with("cuda") {
        return Ok(None);
    }
    Ok(symbols_of(&name, version).into_iter().find_map(|symbol| c::own_symbol(&CString::new(symbol).ok()?)))
}

/// The symbols that a name may mean, the one that is meant first.
fn symbols_of(name: &str, version: i32) -> Vec<String> {
    let newer = NEWER.iter().find(|(known, _, _)| *known == name);
    match newer {
        Some((_, symbol, since)) if version >= *since => vec![(*symbol).to_owned()],
        _ if name == "cuGetProcAddress" => vec![name.to_owned()],
        _ => vec![format!("{name}_v2"), name.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_its_second_version_if_there_is_one() {
        assert_eq!(symbols_of("cuMemAlloc", 12000), ["cuMemAlloc_v2", "cuMemAlloc"]);
        assert_eq!(symbols_of("cuCtxCreate", 12090), ["cuCtxCreate_v2", "cuCtxCreate"]);
        assert_eq!(symbols_of("cuCtxCreate", 13000), ["cuCtxCreate_v4"]);
        assert_eq!(symbols_of("cuGetProcAddress", 11080), ["cuGetProcAddress"]);
        assert_eq!(symbols_of("cuGetProcAddress", 12000), ["cuGetProcAddress_v2"]);
    }
}
