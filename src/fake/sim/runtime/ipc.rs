//! Memory of other processes.

use super::call_in;
use crate::model::ipc::Handle;
use crate::model::status::SIM_NOT_MODELLED;
use crate::pointer::Out;
use crate::symbols::runtime_symbols;

/// `cudaIpcMemLazyEnablePeerAccess`, without which nothing was measured.
const LAZY_PEER_ACCESS: u32 = 1;

runtime_symbols! {
    fn cudaIpcGetMemHandle(handle: Out<Handle>, address: u64) =
        call_in(|process, _, _| handle.put(process.export(address)?));

    fn cudaIpcOpenMemHandle(address: Out<u64>, handle: Handle, flags: u32) = call_in(|process, _, context| {
        if flags != LAZY_PEER_ACCESS {
            return Err(SIM_NOT_MODELLED);
        }
        address.put(process.import(handle, context)?)
    });

    fn cudaIpcCloseMemHandle(address: u64) = call_in(|process, _, _| process.close_import(address));
}
