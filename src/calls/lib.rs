//! Every call that a scenario can list, as data: one line for each C prototype, in `tables/*.calls`.
//!
//! ```text
//! cuDeviceGetName(out char *name: text 128, int length := 128, CUdevice device): Reads the name of a visible GPU.
//! ```
//!
//! Each line is a prototype with the C types of its header, words about the call, a colon, and one sentence for help.
//! Lines such as `library libcuda` set the library of the following calls. A line that begins with `#` is a comment.
//!
//! **A parameter** is `C type` `name`. The name is the key in a scenario file or, for an output, in a report. These
//! words may precede the type:
//!
//! | word | means |
//! | --- | --- |
//! | `out` | the callee writes to this address |
//! | `zeroed` | the address of a struct that the caller has zeroed |
//! | `older` | only older versions have this parameter; it is passed to all of them |
//! | `rest` | not a C parameter but the second word of the struct before it, and has no C type |
//!
//! The name may be followed by, in this order: `: way`, if the C type does not determine how the parameter is passed;
//! `= value`, the default if the author leaves it out; or `:= value`, a fixed value. `tables/types.txt` has the way of
//! each C type. For an `out` parameter, it is the way of its complete type or, if that is not listed, of the type that
//! it points to.
//! The ways:
//!
//! | way | an input | what the callee writes |
//! | --- | --- | --- |
//! | `int`, `uint`, `number` | a signed or unsigned integer of 32 bits, an unsigned one of 64 | the same |
//! | `bytes` | a number of bytes | a 64-bit integer |
//! | `varying` | | a 64-bit integer that may differ from attempt to attempt |
//! | `float`, `uuid` | | a `float`; the 16 bytes of a GPU's UUID |
//! | `text`, `text N` | a C string | a C string in a buffer of `N` bytes |
//! | `handle TYPE` | a handle or pointer that an earlier step bound | a handle or pointer that `as` binds |
//! | `word TYPE` | | a number, or the handle that `as` binds |
//! | `block N TYPE` | `N` bytes that a step of any process bound, passed by value | `N` bytes that `as` binds |
//! | `struct NAME` | the address of a struct with one word from the author | a struct with fields that are reported |
//! | a name of `tables/constants.txt` | an integer that has names in a C header | an `int` |
//! | `dim3`, `location` | a struct passed by value | |
//! | `ptx`, `fat binary TYPE`, `arguments` | a kernel file; a linked binary; a kernel's arguments | |
//! | `actor`, `pid` | the name of a thread or process, as such or as its process ID | |
//!
//! **Between the parenthesis and the colon** are, separated by commas: `since V` and `until V`, the CUDA versions
//! whose headers declare this prototype (from 11.4 on; a library may continue to export a function that its header no
//! longer declares), and the effects of the call (see [`Effect`]). An indented line below a call, `until V (C types)`,
//! is the earlier prototype of the same name.
//!
//! A function that returns a text instead of a status has `const char *` before its name.
//!
//! `tables/structs.txt` begins with the syntax of structs.

#![forbid(unsafe_code)]

mod call;
mod constants;
mod kind;
mod library;
mod parse;
mod structs;
mod table;

pub mod status;

pub use call::{
    ACTOR, Call, DRIVER_COPY, EarlierPrototype, Effect, LIBRARY_COPY, Param, RETURNED_TEXT,
    RETURNED_TEXT_BYTES, Returns,
};
pub use constants::{BUILT_IN_STREAMS, Constants, ERRNOS, LIBRARY_FILES, SIGNALS};
pub use kind::{Output, ParamKind, UINT64_MAX};
pub use library::CallLibrary;
pub use structs::{FieldType, InputStruct, Layout, PresetWord, StructField};

use std::sync::LazyLock;

/// The tables of calls, in the order in which help lists them.
const TABLES: [(&str, &str); 6] = [
    ("libcuda.calls", include_str!("tables/libcuda.calls")),
    ("libcudart.calls", include_str!("tables/libcudart.calls")),
    (
        "libnvidia-ml.calls",
        include_str!("tables/libnvidia-ml.calls"),
    ),
    ("toolkit.calls", include_str!("tables/toolkit.calls")),
    ("libc.calls", include_str!("tables/libc.calls")),
    ("harness.calls", include_str!("tables/harness.calls")),
];

static CALLS: LazyLock<Vec<Call>> = LazyLock::new(|| {
    let mut all = Vec::with_capacity(1024);
    for (file, text) in TABLES {
        all.extend(table::read(file, parse::calls(text)));
    }
    all
});

/// Returns every call, library by library.
pub fn all() -> impl Iterator<Item = &'static Call> {
    CALLS.iter()
}

/// Returns a call by its exact name.
pub fn find(name: &str) -> Option<&'static Call> {
    static SORTED: LazyLock<Vec<&Call>> = LazyLock::new(|| {
        let mut sorted: Vec<&Call> = all().collect();
        sorted.sort_unstable_by_key(|call| call.name);
        sorted
    });
    let index = SORTED.binary_search_by_key(&name, |call| call.name).ok()?;
    SORTED.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_table_can_be_read() {
        for (file, text) in TABLES {
            let calls =
                parse::calls(text).unwrap_or_else(|(line, why)| panic!("{file}:{line}: {why}"));
            assert!(!calls.is_empty(), "{file} has no calls");
        }
        assert!(all().count() >= 770);
    }

    #[test]
    fn names_are_unique_and_summaries_are_sentences() {
        let mut seen = HashSet::new();
        for call in all() {
            assert!(seen.insert(call.name), "{} is listed twice", call.name);
            assert!(
                call.summary.ends_with('.'),
                "{}: {:?}",
                call.name,
                call.summary
            );
        }
    }

    #[test]
    fn parameters_of_a_call_have_names_of_their_own() {
        for call in all() {
            let mut seen = HashSet::new();
            for param in &call.params {
                assert!(
                    seen.insert(param.name),
                    "{}: {} twice",
                    call.name,
                    param.name
                );
            }
            assert!(
                call.params.len() <= 12,
                "{}: the worker passes at most 12 parameters",
                call.name
            );
        }
    }

    #[test]
    fn an_earlier_prototype_is_older_and_takes_no_more_than_is_passed() {
        for call in all() {
            let Some(earlier) = &call.earlier else {
                continue;
            };
            assert!(
                call.since.is_some_and(|since| since > earlier.until),
                "{}",
                call.name
            );
            assert!(earlier.types.len() <= call.params.len(), "{}", call.name);
            assert!(
                call.until.is_none_or(|until| call.since < Some(until)),
                "{}",
                call.name
            );
        }
    }

    fn written(version: u32) -> String {
        format!("{}.{}", version / 1000, version % 1000 / 10)
    }

    #[test]
    fn versions_in_a_summary_are_those_of_the_header() {
        // libcuda exports these since the version that `cudaTypedefs.h` states, earlier than `cuda.h` declares them.
        const EXPORTED_BEFORE: [&str; 5] = [
            "cuGreenCtxGetId",
            "cuMemBatchDecompressAsync",
            "cuOccupancyMaxActiveClusters",
            "cuOccupancyMaxPotentialClusterSize",
            "cuLaunchKernelEx",
        ];
        let mut said = 0;
        for call in all().filter(|call| !EXPORTED_BEFORE.contains(&call.name)) {
            for note in call
                .summary
                .split('(')
                .skip(1)
                .filter_map(|rest| rest.split_once(')'))
                .map(|(note, _)| note)
            {
                if let Some(since) = note.strip_suffix(" and later") {
                    assert_eq!(
                        call.since.map(written).as_deref(),
                        Some(since),
                        "{}",
                        call.name
                    );
                    said += 1;
                } else if let Some((since, until)) = note.split_once(" to ") {
                    let known = call.since.map(written).zip(call.until.map(written));
                    assert_eq!(
                        known,
                        Some((since.to_string(), until.to_string())),
                        "{}",
                        call.name
                    );
                    said += 1;
                }
            }
        }
        assert!(said > 90, "only {said} summaries name a version");
    }

    #[test]
    fn a_call_is_found_by_its_exact_name() {
        assert_eq!(
            find("cuCtxCreate_v2").map(|call| (call.library, call.until)),
            Some((CallLibrary::Driver, Some(12090)))
        );
        assert!(find("cuCtxCreate_v9").is_none());
    }
}
