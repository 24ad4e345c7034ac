//! The objects of a driver, each with its own rules. Nothing here knows the C ABI or the entire process.

pub mod account;
pub mod address;
pub mod attribute;
pub mod behaviour;
pub mod blocks;
pub mod context;
pub mod device;
pub mod environment;
pub mod exit;
pub mod fault;
pub mod host;
pub mod injection;
pub mod launch;
pub mod library;
pub mod limits;
pub mod mapping;
pub mod mask;
pub mod module;
/// Names and messages of status codes, from the program's table. The file is a link to it, so that a package of this
/// crate has it without `calls/`.
pub mod names;
pub mod needs;
pub mod pool;
pub mod primary;
pub mod ptx;
pub mod status;
pub mod stream;
pub mod thread;
