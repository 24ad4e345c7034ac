//! The node and its rules, free of the C ABI.

pub mod account;
pub mod attribute;
pub mod behaviour;
pub mod blocks;
pub mod charge;
pub mod context;
pub mod device;
pub mod limits;
pub mod machine;
pub mod mask;
pub mod memory;
pub mod module;
pub mod names_driver;
pub mod names_runtime;
pub mod node;
pub mod pool;
pub mod primary;
pub mod process;
pub mod status;
pub mod stream;
pub mod table;
pub mod texts;
pub mod thread;
