//! The driver's state in this process: initialised once, lost in a forked child.

use crate::c;
use crate::model::account::Account;
use crate::model::behaviour::{FAILED_INIT_REREADS, RUNTIME_KEEPS_NO_DEVICE};
use crate::model::contents::Contents;
use crate::model::context::{Context, Owner};
use crate::model::device::Device;
use crate::model::entry;
use crate::model::fault::Fault;
use crate::model::launch::Busy;
use crate::model::library::{Kernel, Library};
use crate::model::machine::Gpu;
use crate::model::mapping::Mappings;
use crate::model::mask::{self, Unusable};
use crate::model::memory::{AsyncMemory, HostMemory};
use crate::model::module::{Function, Module};
use crate::model::node::{self, NoNode, Node};
use crate::model::pools::DevicePool;
use crate::model::sharing::Shared;
use crate::model::status::*;
use crate::model::stream::{Event, Stream};
use std::collections::BTreeMap;

/// How far initialisation got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Phase {
    Fresh,
    Ready,
    /// `cuInit` found no device to show.
    NoDevice,
    /// `cuInit` refused the environment: a mask that names a GPU twice, a misspelt order of devices.
    Refused,
    /// The parent had initialised the driver before it forked this process.
    Forked,
}

/// Everything the driver and the runtime know. One lock guards it, and nothing is called out of the library while it is held.
pub struct Process {
    pub phase: Phase,
    /// The runtime found no device and goes on saying so.
    pub runtime_found_none: bool,
    /// How many devices the runtime has counted, which it remembers.
    pub counted: Option<i32>,
    node: Option<&'static Node>,
    pub account: Account,
    pub devices: Vec<Device>,
    pub contexts: BTreeMap<u64, Context>,
    pub streams: BTreeMap<u64, Stream>,
    pub events: BTreeMap<u64, Event>,
    pub modules: BTreeMap<u64, Module>,
    pub functions: BTreeMap<u64, Function>,
    pub host: BTreeMap<u64, HostMemory>,
    pub pooled: BTreeMap<u64, AsyncMemory>,
    pub pools: BTreeMap<u64, DevicePool>,
    pub libraries: BTreeMap<u64, Library>,
    pub kernels: BTreeMap<u64, Kernel>,
    pub mappings: Mappings,
    pub contents: Contents,
    pub shared: Shared,
    pub fault: Option<Fault>,
    /// What was launched since the host last waited.
    pub busy: Option<Busy>,
    /// What `CUDA_MODULE_LOADING` and the like were at initialisation.
    pub latched: Environment,
    /// A call has failed, so there is something in the log of errors.
    has_logged: bool,
    next_handle: u64,
}

/// What the driver reads from the environment when it initialises.
#[derive(Default)]
pub struct Environment {
    pub mask: Option<Vec<u8>>,
    pub order: Option<Vec<u8>>,
    pub loading: Option<Vec<u8>>,
    pub connections: Option<Vec<u8>>,
    pub no_ptx_jit: Option<Vec<u8>>,
    pub no_jit: Option<Vec<u8>>,
    pub no_cache: Option<Vec<u8>>,
}

impl Process {
    /// A process in which nobody has called `cuInit` yet, or never successfully can.
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            runtime_found_none: false,
            counted: None,
            node: None,
            account: Account::default(),
            devices: Vec::new(),
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            host: BTreeMap::new(),
            pooled: BTreeMap::new(),
            pools: BTreeMap::new(),
            libraries: BTreeMap::new(),
            kernels: BTreeMap::new(),
            mappings: Mappings::default(),
            contents: Contents::default(),
            shared: Shared::default(),
            fault: None,
            busy: None,
            latched: Environment::default(),
            // What a parent's log leaves in that of its child is not known either.
            has_logged: phase != Phase::Fresh,
            next_handle: 0x5100_0000_0000,
        }
    }

    /// `cuInit`: the moment at which the environment is read, once.
    pub fn init(&mut self) -> Outcome {
        match self.phase {
            Phase::Ready => return Ok(()),
            Phase::Forked => return Err(NOT_INITIALIZED),
            Phase::NoDevice if !FAILED_INIT_REREADS => return Err(NO_DEVICE),
            Phase::NoDevice | Phase::Refused | Phase::Fresh => {}
        }
        let node = node::node().map_err(no_node)?;
        let environment = Environment {
            mask: c::env(c"CUDA_VISIBLE_DEVICES"),
            order: c::env(c"CUDA_DEVICE_ORDER"),
            loading: c::env(c"CUDA_MODULE_LOADING"),
            connections: c::env(c"CUDA_DEVICE_MAX_CONNECTIONS"),
            no_ptx_jit: c::env(c"CUDA_DISABLE_PTX_JIT"),
            no_jit: c::env(c"CUDA_DISABLE_JIT"),
            no_cache: c::env(c"CUDA_CACHE_DISABLE"),
        };
        self.start(node, environment)?;
        // What the real driver does at the process's exit it arranges for here, too (process/calls-from-an-exit-handler).
        c::at_exit(entry::tear_down);
        Ok(())
    }

    /// The runtime's own first step: `cuInit`, whose "no device" it remembers.
    pub fn runtime_init(&mut self) -> Outcome {
        if self.runtime_found_none {
            // What it says once the driver has found a device after all is not known.
            return Err(if self.phase == Phase::Ready { SIM_NOT_MODELLED } else { NO_DEVICE });
        }
        let outcome = self.init();
        self.runtime_found_none = RUNTIME_KEEPS_NO_DEVICE && outcome == Err(NO_DEVICE);
        outcome
    }

    /// Initialises on a given node with a given environment.
    pub fn start(&mut self, node: &'static Node, environment: Environment) -> Outcome {
        let gpus = &node.machine.gpus;
        let visible = mask::device_order(environment.order.as_deref(), gpus)
            .and_then(|ordered| mask::visible(environment.mask.as_deref(), &ordered, gpus));
        // Nothing has been taken yet: a failed `cuInit` leaves no trace on any GPU.
        let visible = match visible {
            // What was refused has been replaced.
            Ok(_) | Err(Unusable::ShowsNone) if self.phase == Phase::Refused => return Err(SIM_NOT_MODELLED),
            Ok(visible) => visible,
            Err(Unusable::ShowsNone) => {
                self.phase = Phase::NoDevice;
                return Err(NO_DEVICE);
            }
            Err(Unusable::NamesOneTwice | Unusable::MisspeltOrder) => {
                self.phase = Phase::Refused;
                return Err(INVALID_DEVICE);
            }
        };
        for gpu in &visible {
            self.account.charge(node, *gpu, gpus[*gpu].init_bytes)?;
        }
        for (ordinal, gpu) in visible.into_iter().enumerate() {
            let (primary, pool) = (self.handle(), self.handle());
            self.devices.push(Device::new(&node.machine, ordinal, gpu, primary, pool));
            self.pools.insert(pool, DevicePool::new(ordinal, node.machine.pool_granularity_bytes));
            self.contexts.insert(primary, Context::primary(ordinal));
        }
        self.latched = environment;
        self.node = Some(node);
        self.phase = Phase::Ready;
        Ok(())
    }

    /// The node, or "not initialised": every call that needs `cuInit` starts here.
    pub fn node(&self) -> Outcome<&'static Node> {
        self.node.ok_or(NOT_INITIALIZED)
    }

    /// The device of an ordinal.
    pub fn device(&self, ordinal: i32) -> Outcome<&Device> {
        self.node()?;
        self.devices.get(usize::try_from(ordinal).map_err(|_| INVALID_DEVICE)?).ok_or(INVALID_DEVICE)
    }

    /// The GPU under a context.
    pub fn gpu(&self, owner: Owner) -> Outcome<&'static Gpu> {
        Ok(&self.node()?.machine.gpus[self.devices[owner.device].gpu])
    }

    /// An ordinal that names a device, as an index.
    pub fn ordinal(&self, ordinal: i32) -> Outcome<usize> {
        self.device(ordinal).map(|_| ordinal as usize)
    }

    /// Notes what a call came to. That something is not modelled is no error.
    pub fn log(&mut self, outcome: Outcome) {
        self.has_logged |= outcome.is_err_and(|code| code != SIM_NOT_MODELLED);
    }

    /// Where the log of errors ends: at 0 until a call fails, and what a failure writes is not modelled.
    pub fn log_end(&self) -> Outcome<u32> {
        if self.has_logged { Err(SIM_NOT_MODELLED) } else { Ok(0) }
    }

    /// A handle that was never used before. Handles are numbers; nothing is behind them.
    pub fn handle(&mut self) -> u64 {
        self.next_handle += 0x100;
        self.next_handle
    }
}

/// What `cuInit` says when there is no simulated node to talk to.
pub fn no_node(why: NoNode) -> u32 {
    match why {
        NoNode::Missing => FILE_NOT_FOUND,
        NoNode::Malformed => UNKNOWN,
    }
}

#[cfg(test)]
pub mod sample {
    use super::{Environment, Process};
    use crate::model::machine::sample::machine;
    use crate::model::node::Node;
    use crate::model::process::Phase;
    use crate::model::table::sample::table;

    /// A process that is initialised on the sample machine and sees two of its GPUs, with a node of its own.
    pub fn ready() -> Process {
        let node = Box::leak(Box::new(Node { machine: machine(), table: table() }));
        let mut process = Process::new(Phase::Fresh);
        let (mask, order) = (Some(b"0,1".to_vec()), Some(b"PCI_BUS_ID".to_vec()));
        process.start(node, Environment { mask, order, ..Environment::default() }).unwrap();
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine::Machine;
    use crate::model::machine::sample::machine;
    use crate::model::table::sample::table;
    use crate::model::thread::Thread;

    #[test]
    fn an_empty_mask_finds_no_device_until_it_is_changed() {
        let node = Box::leak(Box::new(Node { machine: machine(), table: table() }));
        let mut process = Process::new(Phase::Fresh);
        let mask = Some(Vec::new());
        assert_eq!(process.start(node, Environment { mask, ..Environment::default() }), Err(NO_DEVICE));
        assert_eq!(process.device(0).err(), Some(NOT_INITIALIZED));
        process.runtime_found_none = true;
        assert_eq!(process.runtime_init(), Err(NO_DEVICE));
        assert_eq!(process.start(node, Environment::default()), Ok(()));
        assert_eq!(process.init(), Ok(()));
        assert_eq!(process.runtime_init(), Err(SIM_NOT_MODELLED));
    }

    #[test]
    fn initialising_takes_memory_on_the_visible_gpus_only() {
        let node = Box::leak(Box::new(Node { machine: machine(), table: table() }));
        let start = |mask: &[u8]| {
            let mut process = Process::new(Phase::Fresh);
            let order = Some(b"PCI_BUS_ID".to_vec());
            let outcome =
                process.start(node, Environment { mask: Some(mask.to_vec()), order, ..Environment::default() });
            (process, outcome)
        };
        let (mut refused, outcome) = start(b"0,0");
        assert_eq!(outcome, Err(INVALID_DEVICE));
        let again = |mask: &[u8]| Environment { mask: Some(mask.to_vec()), ..Environment::default() };
        assert_eq!(refused.start(node, again(b"0,0")), Err(INVALID_DEVICE));
        assert_eq!(refused.start(node, again(b"0")), Err(SIM_NOT_MODELLED));
        assert_eq!(refused.device(0).err(), Some(NOT_INITIALIZED));
        assert_eq!((0..4).map(|gpu| node.table.used_bytes(gpu)).sum::<u64>(), 0);
        let (_ready, outcome) = start(b"1,3");
        assert_eq!(outcome, Ok(()));
        let used: Vec<u64> = (0..4).map(|gpu| node.table.used_bytes(gpu)).collect();
        assert_eq!(used, [0, 3 << 20, 0, 3 << 20]);
    }

    #[test]
    fn selecting_a_device_makes_its_context_since_runtime_12() {
        let made = |runtime: i32| {
            let node = Machine { cuda_runtime_version: runtime, ..machine() };
            let node = Box::leak(Box::new(Node { machine: node, table: table() }));
            let mut process = Process::new(Phase::Fresh);
            process.start(node, Environment::default()).unwrap();
            process.set_device(0, &mut Thread::default()).unwrap();
            process.devices[0].primary.active
        };
        assert_eq!([11070, 11080, 12000, 13000].map(made), [false, false, true, true]);
    }

    #[test]
    fn a_forked_child_stays_uninitialised() {
        let mut process = Process::new(Phase::Forked);
        assert_eq!(process.init(), Err(NOT_INITIALIZED));
        assert_eq!(process.device(0).err(), Some(NOT_INITIALIZED));
    }

    #[test]
    fn the_log_is_known_until_a_call_fails() {
        let mut process = Process::new(Phase::Fresh);
        process.log(Ok(()));
        process.log(Err(SIM_NOT_MODELLED));
        assert_eq!(process.log_end(), Ok(0));
        process.log(Err(INVALID_DEVICE));
        assert_eq!(process.log_end(), Err(SIM_NOT_MODELLED));
        assert_eq!(Process::new(Phase::Forked).log_end(), Err(SIM_NOT_MODELLED));
    }

    #[test]
    fn a_library_outside_a_node_says_so() {
        assert_eq!(Process::new(Phase::Fresh).init(), Err(FILE_NOT_FOUND));
    }
}
