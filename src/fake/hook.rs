//! The injection library of the scenarios: libcuda loads what `CUDA_INJECTION64_PATH` names, and calls
//! `InitializeInjection` in it.
//!
//! Its hook sets `CUDA_VISIBLE_DEVICES` to the value of `CUDA_PITFALLS_HOOK_MASK`. Where that is not set, it changes
//! nothing and returns 0, as a hook does that declines. It makes no call of CUDA and allocates nothing, so that it
//! takes part in what is measured by this one variable alone.

#![no_std]

use core::ffi::{c_char, c_int};

#[link(name = "c")]
unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
}

/// The hook: 1 if it has set the mask.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    // SAFETY: all texts end in NUL. Whoever names this library changes the environment on no other thread meanwhile.
    unsafe {
        let mask = getenv(c"CUDA_PITFALLS_HOOK_MASK".as_ptr());
        c_int::from(!mask.is_null() && setenv(c"CUDA_VISIBLE_DEVICES".as_ptr(), mask, 1) == 0)
    }
}

/// Nothing above can panic.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
