//! The injection library of the scenarios: libcuda loads the library in `CUDA_INJECTION64_PATH`, and calls
//! `InitializeInjection` in it.
//!
//! Its hook sets `CUDA_VISIBLE_DEVICES` to the value of `CUDA_PITFALLS_HOOK_MASK`. If that variable is not set, it
//! changes nothing and returns 0, as a hook that declines does. It makes no CUDA calls and allocates nothing, so that
//! this variable is its only effect on the measurement.

#![no_std]

use core::ffi::{c_char, c_int};

#[link(name = "c")]
unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
}

/// Sets the mask. Returns 1 if it has set it.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    // SAFETY: all texts end in NUL. The user of this library changes the environment on no other thread at that time.
    unsafe {
        let mask = getenv(c"CUDA_PITFALLS_HOOK_MASK".as_ptr());
        c_int::from(!mask.is_null() && setenv(c"CUDA_VISIBLE_DEVICES".as_ptr(), mask, 1) == 0)
    }
}

/// Required, but never called: nothing above can panic.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
