//! The C declarations in the tables of calls match the bindings: prototypes, sizes and offsets of structs, constants,
//! status codes. The compiler compares them; a difference does not compile, and the error contains the name.

/// Generated from the tables by the build script.
#[expect(clippy::type_complexity, reason = "prototypes of C")]
mod declared {
    use cudarc::driver::sys as driver;
    use cudarc::runtime::sys as runtime;
    use nvml_wrapper_sys::bindings as nvml;

    include!(concat!(env!("OUT_DIR"), "/declared.rs"));
}

#[test]
fn nearly_every_call_of_a_library_is_held_against_its_bindings() {
    use cuda_pitfalls_calls::CallLibrary;
    let libraries = [
        CallLibrary::Driver,
        CallLibrary::Runtime,
        CallLibrary::Nvml,
        CallLibrary::Libc,
    ];
    let calls = cuda_pitfalls_calls::all().filter(|call| libraries.contains(&call.library));
    // The others belong to older headers.
    let newest = calls.filter(|call| call.until.is_none()).count();
    assert!(
        declared::CALLS + 10 > newest,
        "only {} of {newest}",
        declared::CALLS
    );
}
