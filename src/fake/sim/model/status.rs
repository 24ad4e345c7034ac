//! The status codes that the model returns. Driver and runtime share these numbers.

use crate::machine::NoMachine;

pub const SUCCESS: u32 = 0;
pub const INVALID_VALUE: u32 = 1;
pub const OUT_OF_MEMORY: u32 = 2;
pub const NOT_INITIALIZED: u32 = 3;
pub const DEINITIALIZED: u32 = 4;
pub const INSUFFICIENT_DRIVER: u32 = 35;
pub const DEVICE_UNAVAILABLE: u32 = 46;
pub const NO_DEVICE: u32 = 100;
pub const INVALID_DEVICE: u32 = 101;
pub const INVALID_CONTEXT: u32 = 201;
pub const UNSUPPORTED_LIMIT: u32 = 215;
pub const FILE_NOT_FOUND: u32 = 301;
pub const OPERATING_SYSTEM: u32 = 304;
pub const INVALID_HANDLE: u32 = 400;
pub const NOT_FOUND: u32 = 500;
pub const NOT_READY: u32 = 600;
pub const ILLEGAL_ADDRESS: u32 = 700;
pub const LAUNCH_OUT_OF_RESOURCES: u32 = 701;
pub const CONTEXT_IS_DESTROYED: u32 = 709;
pub const ASSERT: u32 = 710;
pub const HOST_MEMORY_ALREADY_REGISTERED: u32 = 712;
pub const HOST_MEMORY_NOT_REGISTERED: u32 = 713;
pub const LAUNCH_FAILED: u32 = 719;
pub const NOT_PERMITTED: u32 = 800;
pub const NOT_SUPPORTED: u32 = 801;
pub const UNKNOWN: u32 = 999;

/// The model has no answer for this call with these arguments in this state. No real library uses this number.
pub const SIM_NOT_MODELLED: u32 = 60000;

/// Every rule of the model answers with a value or with one of the codes above.
pub type Outcome<T = ()> = Result<T, u32>;

/// Returns the code of an outcome, for the C side.
pub fn code(outcome: Outcome) -> u32 {
    match outcome {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

/// Returns the result of a call without a simulated machine.
pub fn no_machine(why: NoMachine) -> u32 {
    match why {
        NoMachine::Missing => FILE_NOT_FOUND,
        NoMachine::Malformed => UNKNOWN,
    }
}
