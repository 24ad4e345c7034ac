//! Stream-ordered memory and its pools.

use super::{call, call_in};
use crate::driver::mapping::{Access, Properties};
use crate::model::context::ContextOwner;
use crate::model::status::{Outcome, SIM_NOT_MODELLED};
use crate::model::stream::is_explicit;
use crate::pointer::{In, Out};
use crate::process::SimulatedProcess;
use crate::symbols::{runtime_symbols, symbols};

const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_CURRENT: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED_CURRENT: u32 = 7;
const USED_HIGH: u32 = 8;

symbols! {
    fn cudaMallocAsync(address: Out<u64>, bytes: usize, stream: u64) = if is_explicit(stream) {
        call("cudaMallocAsync on an explicit stream", |process, _| {
            allocate(process, &address, bytes, stream, Err(SIM_NOT_MODELLED))
        })
    } else {
        call_in("cudaMallocAsync", |process, _, context| allocate(process, &address, bytes, stream, Ok(context)))
    };
}

fn allocate(
    process: &mut SimulatedProcess,
    address: &Out<u64>,
    bytes: usize,
    stream: u64,
    current: Outcome<ContextOwner>,
) -> Outcome {
    let device = process.stream_owner(stream, current)?.device;
    address.put_with(|| process.allocate_async(device, bytes as u64))
}

runtime_symbols! {
    fn cudaMallocFromPoolAsync(address: Out<u64>, bytes: usize, pool: u64, stream: u64) =
        call_in(|process, _, context| {
            let device = process.stream_owner(stream, Ok(context))?.device;
            if process.pool(pool)?.device != device {
                return Err(SIM_NOT_MODELLED);
            }
            address.put_with(|| process.allocate_from(pool, bytes as u64))
        });

    fn cudaFreeAsync(address: u64, stream: u64) = call_in(|process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        process.free_async(address)
    });

    fn cudaDeviceGetDefaultMemPool(pool: Out<u64>, device: i32) =
        call(|process, _| pool.put(process.device(device)?.pool_handle));

    fn cudaMemPoolSetAttribute(pool: u64, attribute: u32, value: Out<u64>) = call(|process, _| {
        let pool = process.pool(pool)?;
        value.given()?;
        if attribute != RELEASE_THRESHOLD {
            return Err(SIM_NOT_MODELLED);
        }
        // This attribute's value is eight bytes.
        pool.release_threshold = value.read()?;
        Ok(())
    });

    fn cudaMemPoolGetAttribute(pool: u64, attribute: u32, value: Out<u64>) = call(|process, _| {
        let pool = process.pool(pool)?;
        value.put(match attribute {
            RELEASE_THRESHOLD => pool.release_threshold,
            RESERVED_CURRENT => pool.reserved,
            RESERVED_HIGH => pool.reserved_high,
            USED_CURRENT => pool.used,
            USED_HIGH => pool.used_high,
            _ => return Err(SIM_NOT_MODELLED),
        })
    });

    fn cudaMemPoolTrimTo(pool: u64, keep: usize) = call(|process, _| process.trim(pool, keep as u64));

    fn cudaMemPoolCreate(pool: Out<u64>, wanted: In<Properties>) = call(|process, _| {
        let device = wanted.read()?.device(process)?;
        pool.put(process.create_pool(device)?)
    });

    fn cudaMemPoolSetAccess(pool: u64, access: In<Access>, count: usize) = call(|process, _| {
        let device = Access::device(process, &access, count)?;
        process.open_pool(pool, device)
    });
}
