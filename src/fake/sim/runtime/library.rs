//! Libraries and launches of the runtime.

use super::{call, call_in};
use crate::driver::module::arguments;
use crate::model::launch::{Launch, Shape};
use crate::model::status::{INVALID_DEVICE_FUNCTION, SIM_NOT_MODELLED};
use crate::pointer::{InText, ModuleImage, Out};
use crate::symbols::runtime_symbols;
use std::ffi::c_void;

/// `dim3`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

impl Dim3 {
    fn sides(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

runtime_symbols! {
    /// Makes no context (context/library-load-makes-one).
    fn cudaLibraryLoadData(
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

    fn cudaLibraryUnload(library: u64) = call(|process, _| process.unload_library(library));

    fn cudaLibraryGetKernel(kernel: Out<u64>, library: u64, name: InText) =
        call(|process, _| kernel.put(process.kernel_of_library(library, &name.name()?)?));

    fn cudaLaunchKernel(
        kernel: u64,
        grid: Dim3,
        block: Dim3,
        params: *mut *mut c_void,
        _shared_bytes: usize,
        stream: u64,
    ) = call_in(|process, _, context| {
        // What is launched is a function of the host, and the null one was never registered.
        if kernel == 0 {
            return Err(INVALID_DEVICE_FUNCTION);
        }
        // SAFETY: the caller passes what the C prototype says, or null.
        let arguments = unsafe { arguments(process, kernel, params)? };
        let shape = Shape { grid: grid.sides(), block: block.sides() };
        process.launch(kernel, Launch { shape, stream, arguments: &arguments }, Ok(context))
    });
}
