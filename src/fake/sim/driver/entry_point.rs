//! Entry points by name, as the runtime and others look them up.

use crate::c;
use crate::machine::machine;
use crate::model::status::{INVALID_VALUE, NOT_FOUND, Outcome, SIM_NOT_MODELLED, code};
use crate::pointer::{InText, Out};
use crate::symbols::symbols;
use std::ffi::{CString, c_void};

/// Additional result of `cuGetProcAddress_v2` for a name: found.
const FOUND: u32 = 0;
const UNKNOWN: u32 = 1;
const TOO_OLD: u32 = 2;

/// The flags that request per-thread default streams, which are not modeled, and all existing flags.
const PER_THREAD: u64 = 2;
const ALL_FLAGS: u64 = 3;

/// The CUDA version that introduced each form of each function.
const VERSIONS: &str = include_str!("versions.txt");

symbols! {
    /// An unknown name is not an error (the survey of calls).
    fn cuGetProcAddress_v2(name: InText, function: Out<*mut c_void>, version: i32, flags: u64, found: Out<u32>) =
        code(look_up(&name, version, flags).and_then(|answer| {
            let (said, address) = answer.map_or_else(|why| (why, std::ptr::null_mut()), |address| (FOUND, address));
            function.put(address)?;
            // The last argument may be null.
            let _ = found.put(said);
            Ok(())
        }));

    fn cuGetProcAddress(name: InText, function: Out<*mut c_void>, version: i32, flags: u64) =
        code(look_up(&name, version, flags).and_then(|answer| function.put(answer.map_err(|_| NOT_FOUND)?)));
}

/// Returns the function of this library that a name refers to in a program written for a version, or the reason why the
/// name is not found.
fn look_up(name: &InText, version: i32, flags: u64) -> Outcome<Result<*mut c_void, u32>> {
    let newest = machine().map(|machine| machine.description.cuda_driver_version);
    if flags > ALL_FLAGS || newest.is_ok_and(|newest| version > newest) {
        return Err(INVALID_VALUE);
    }
    if flags & PER_THREAD != 0 || version < 0 {
        return Err(SIM_NOT_MODELLED);
    }
    let symbol = symbol_of(&name.name()?, version);
    // A form that is not modeled is missing here, and no other one replaces it: it may have other arguments.
    Ok(symbol.and_then(|symbol| {
        CString::new(symbol)
            .ok()
            .and_then(|symbol| c::own_symbol(&symbol))
            .ok_or(UNKNOWN)
    }))
}

/// Returns the symbol that a name refers to in a program written for a version, or the reason why it does not refer to
/// one.
fn symbol_of(name: &str, version: i32) -> Result<String, u32> {
    let known = VERSIONS
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .ok_or(UNKNOWN)?;
    let since = known
        .split(' ')
        .filter_map(|since| since.parse::<i32>().ok());
    match since.take_while(|since| *since <= version).count() {
        0 => Err(TOO_OLD),
        1 => Ok(name.to_owned()),
        form => Ok(format!("{name}_v{form}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_a_real_driver_says() {
        let measured = include_str!("versions_measured.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'));
        let mut rows = 0;
        for row in measured {
            let [name, version, status, said, symbols] = row.split('\t').collect::<Vec<_>>()[..]
            else {
                panic!("no row: {row}")
            };
            // A version that is newer than the driver is rejected before the name is checked.
            if status == "1" {
                assert!(version.parse::<i32>().unwrap() > 13000, "{row}");
                continue;
            }
            match symbol_of(name, version.parse().unwrap()) {
                Ok(symbol) => assert!(
                    said == "0" && symbols.split(',').any(|one| one == symbol),
                    "{row}: {symbol}"
                ),
                Err(why) => assert_eq!((said, symbols), (why.to_string().as_str(), "-"), "{row}"),
            }
            rows += 1;
        }
        assert!(rows > 500, "{rows} rows");
    }
}
