//! Modules, kernels and launches.

use super::{call, call_in};
use crate::model::launch::{Launch, Shape};
use crate::model::status::{INVALID_VALUE, Outcome};
use crate::pointer::{InText, ModuleImage, Out};
use crate::process::SimulatedProcess;
use crate::symbols::symbols;
use std::ffi::c_void;

/// Returns the arguments of a launch. Each is assumed to have eight bytes.
///
/// # Safety
/// `params` is null or has an entry for each parameter of the kernel, which points to its argument.
pub unsafe fn arguments(
    process: &SimulatedProcess,
    function: u64,
    params: *mut *mut c_void,
) -> Outcome<Vec<u64>> {
    let count = process.parameters(function)?;
    if count > 0 && params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the entries and what they point to.
    Ok((0..count)
        .map(|index| unsafe { (*params.add(index)).cast::<u64>().read_unaligned() })
        .collect())
}

symbols! {
    fn cuModuleLoadData(module: Out<u64>, image: ModuleImage) =
        call_in(|process, _, current| module.put_with(|| process.load(current, &image.ptx()?)));

    fn cuModuleGetFunction(function: Out<u64>, module: u64, name: InText) =
        call_in(|process, _, _| function.put(process.function(module, &name.name()?)?));

    fn cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: u64, name: InText) =
        call_in(|process, _, _| {
            let (found, size) = process.variable(module, &name.name()?)?;
            address.put(found)?;
            bytes.put(size as usize)
        });

    fn cuModuleUnload(module: u64) = call_in(|process, _, _| process.unload(module));

    fn cuModuleGetLoadingMode(mode: Out<i32>) = call(|process, _| mode.put(process.loading_mode()?));

    fn cuLaunchKernel(
        function: u64,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        _shared_bytes: u32,
        stream: u64,
        params: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) = call(|process, thread| {
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z] };
        let current = process.current(thread);
        // SAFETY: the caller passes what the C prototype says, or null.
        let arguments = unsafe { arguments(process, function, params)? };
        process.launch(function, Launch { shape, stream, arguments: &arguments }, current)
    });
}
