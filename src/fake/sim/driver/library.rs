//! Libraries, which belong to no context.

use super::{call, call_on};
use crate::model::status::{INVALID_HANDLE, SIM_NOT_MODELLED};
use crate::pointer::{InText, ModuleImage, Out};
use crate::symbols::symbols;
use std::ffi::c_void;

symbols! {
    fn cuLibraryLoadData(
        library: Out<u64>,
        image: ModuleImage,
        _jit_options: *mut c_void,
        _jit_values: *mut c_void,
        jit_count: u32,
        _options: *mut c_void,
        _values: *mut c_void,
        count: u32,
    ) = call(|process, thread| {
        library.given()?;
        if jit_count != 0 || count != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        library.put(process.load_library(&image.ptx()?, process.current(thread).ok())?)
    });

    fn cuLibraryUnload(library: u64) =
        call_on(library, INVALID_HANDLE, |process, _| process.unload_library(library));

    fn cuLibraryGetKernel(kernel: Out<u64>, library: u64, name: InText) =
        call_on(library, INVALID_HANDLE, |process, _| kernel.put(process.kernel_of_library(library, &name.name()?)?));

    /// Needs a current context (context/library-load-makes-one).
    fn cuKernelGetFunction(function: Out<u64>, kernel: u64) =
        call_on(kernel, INVALID_HANDLE, |process, thread| {
            function.put(process.function_in(kernel, process.current(thread)?)?)
        });

    fn cuLibraryGetGlobal(address: Out<u64>, bytes: Out<usize>, library: u64, name: InText) =
        call_on(library, INVALID_HANDLE, |process, thread| {
            let current = process.current(thread)?;
            let name = name.name()?;
            let module = process.module_of_library(library, current)?;
            let (found, size) = process.variable(module, &name)?;
            address.put(found)?;
            bytes.put(size as usize)
        });
}
