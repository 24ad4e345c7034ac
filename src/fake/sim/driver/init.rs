//! Initialization, versions, error texts and the log of errors. Except for `cuInit`, these calls neither initialize the
//! driver nor require it to be initialized.

use crate::entry::{Initialiser, enter, enter_initialising};
use crate::machine::machine;
use crate::model::names::{self, DRIVER, MESSAGES};
use crate::model::status::{INVALID_VALUE, Outcome, code, no_machine};
use crate::pointer::Out;
use crate::symbols::symbols;
use std::ffi::{CStr, c_char};

symbols! {
    fn cuInit(flags: u32) = match flags {
        0 => enter_initialising(Initialiser::Program, |process, _| process.init()),
        _ => enter(|_, _| Err(INVALID_VALUE)),
    };

    fn cuDriverGetVersion(version: Out<i32>) =
        code(machine().map_err(no_machine).and_then(|found| version.put(found.description.cuda_driver_version)));

    fn cuGetErrorName(error: u32, text: Out<*const c_char>) = code(put_static(names::name(DRIVER, error), &text));

    fn cuGetErrorString(error: u32, text: Out<*const c_char>) =
        code(put_static(names::name(DRIVER, error).map(|name| names::name(MESSAGES, error).unwrap_or(name)), &text));
}

fn put_static(found: Option<&'static CStr>, text: &Out<*const c_char>) -> Outcome {
    text.put(found.map_or(std::ptr::null(), CStr::as_ptr))?;
    found.map(drop).ok_or(INVALID_VALUE)
}
