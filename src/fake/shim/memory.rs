//! The owners of GPU memory: the memory that this process has allocated but not freed, by the location that allocated
//! it. It is kept in memory that the tracer can read even after the process was killed (src/trace/tracer/ledger.rs).
//!
//! Allocations are tallied here, each with its size and address; each location is reported to the tracer once. Memory
//! that the driver allocates for itself has no size in any call, so the tracer reads the GPUs' memory around calls that
//! may allocate some.

use crate::c::Quiet;
use crate::counts::DEVICES;
use crate::post::{self, TracerMessage};
use crate::state::{self, SUCCESS, real_function};
use crate::wrapped::COUNT;
use crate::{c, caller, shared, special};
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of rows: one for each distinguished location, and one for each device, which its other locations share.
const ROWS: usize = 4096;
const OWN_ROWS: usize = ROWS - DEVICES;
/// The driver allocates memory in blocks of this size.
const BLOCK: usize = 2 << 20;
/// The process reports a new peak only if it exceeds the last reported one by this many bytes, and by this part of it.
const PEAK_BYTES: u64 = 2 << 20;
const PEAK_PART: u64 = 64;
/// Maximum number of times that memory is read around a call in one process.
const MOST_AROUND: u32 = 50_000;
/// Number of values whose first use is detected: functions and graphs that are launched.
const VALUES: usize = 1 << 15;
const PROBES: usize = 16;

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const LOCATION_DEVICE: u32 = 1;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`.
const POOL_RESERVED: i32 = 5;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const GRAPH_RESERVED: i32 = 2;

/// The kind of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum HeldKind {
    Allocation,
    Pool,
    Physical,
    Managed,
    Imported,
}

impl HeldKind {
    const fn word(self) -> &'static str {
        match self {
            HeldKind::Allocation => "allocation",
            HeldKind::Pool => "pool",
            HeldKind::Physical => "physical",
            HeldKind::Managed => "managed",
            HeldKind::Imported => "imported",
        }
    }
}

/// The values of a device that the tracer reads.
#[repr(C)]
struct DeviceWords {
    rounding: AtomicU64,
    pool_rest: AtomicU64,
    graph: AtomicU64,
    live: AtomicU64,
    changes: AtomicU64,
    /// Number of calls in progress that allocate or free memory: either the driver or this page already has the change,
    /// and the other does not yet. The calls of all devices are counted at the first one.
    under_way: AtomicU64,
}

/// The values of a location that the tracer reads.
#[repr(C)]
struct RowWords {
    live: AtomicU64,
    count: AtomicU64,
}

#[repr(C)]
struct MemoryPage {
    devices: [DeviceWords; DEVICES],
    rows: [RowWords; ROWS],
}

/// A location that allocates memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TakingPlace {
    kind: HeldKind,
    device: usize,
    index: usize,
    callers: u64,
}

impl TakingPlace {
    /// Returns the location that called a wrapper. `args` are in the wrapper's frame.
    fn new(kind: HeldKind, device: usize, index: usize, args: &[usize]) -> Self {
        TakingPlace {
            kind,
            device,
            index,
            callers: caller::fingerprint(args.as_ptr() as usize),
        }
    }
}

/// The key of an allocation. Addresses and handles are numbers that may be the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum HeldName {
    Pointer(usize),
    Physical(usize),
    External(usize),
}

/// An allocation that was not freed.
#[derive(Clone, Copy)]
struct HeldMemory {
    row: usize,
    kind: HeldKind,
    device: usize,
    bytes: u64,
    /// The context of the allocation. Destroying it frees the allocation.
    context: usize,
    /// The pool that it lies in; 0 for none.
    pool: usize,
    /// The handle and the mappings that keep physical memory.
    references: u32,
}

impl HeldMemory {
    /// Returns `true` if NVML reports the memory for this process. Memory that was opened by a CUDA IPC handle, or that
    /// lies on a GPU other than the context's, is reported for its owner for as long as the owner holds it. Physical
    /// memory that was imported is reported for both (memory/ipc-import-costs-nothing-more; 580.159.04).
    fn is_charged(&self) -> bool {
        self.kind != HeldKind::Imported || self.context == 0
    }
}

/// A pool of the driver.
struct DriverPool {
    handle: usize,
    device: usize,
    live: u64,
    reserved: u64,
}

/// A hash of few words, because each allocation waits for it.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_usize((*byte).into()));
    }

    fn write_u64(&mut self, word: u64) {
        self.write_usize(word as usize);
    }

    fn write_usize(&mut self, word: usize) {
        self.0 = caller::mix(self.0, word);
    }
}

type WordMap<K, V> = HashMap<K, V, BuildHasherDefault<WordHasher>>;

#[derive(Default)]
struct MemoryTally {
    places: WordMap<TakingPlace, usize>,
    held: WordMap<HeldName, HeldMemory>,
    /// Number of allocations in a block that none of them fills, by device and number.
    blocks: WordMap<(usize, usize), u32>,
    pools: Vec<DriverPool>,
    /// Mappings of physical memory: the address, with length and handle.
    mappings: WordMap<usize, (usize, usize)>,
    /// The most live bytes on each device, and the most that was reported to the tracer.
    most: Vec<u64>,
    told: Vec<u64>,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static PAGE: AtomicPtr<MemoryPage> = AtomicPtr::new(std::ptr::null_mut());
/// The tally of this process. A forked child gets another, because a lock that was held at the fork stays locked in it.
static TALLY: AtomicPtr<Mutex<MemoryTally>> = AtomicPtr::new(std::ptr::null_mut());
/// 1 in the process that owns the tally. A child that was forked past the C library has its parent's page, and 0 here.
static OWNED: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static AROUND: AtomicU32 = AtomicU32::new(0);
/// The GPUs with a memory reading around the first call of each function, as bits.
static ASKED: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
static SEEN: [AtomicUsize; VALUES] = [const { AtomicUsize::new(0) }; VALUES];
/// `true` if memory was freed to a pool, which keeps it until a synchronization.
static IS_POOL_CHANGED: AtomicBool = AtomicBool::new(false);
/// `true` if a graph was created.
static HAS_GRAPHS: AtomicBool = AtomicBool::new(false);

/// Returns `true` if the trace records the owners of memory.
#[inline]
fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Starts the tally in a process that has initialized the driver, and informs the tracer.
pub fn begin() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if !crate::original::notes_memory()
        || !post::is_heard()
        || HAS_BEGUN.swap(true, Ordering::Relaxed)
    {
        return;
    }
    let _quiet = Quiet::begin();
    let Some((page, descriptor)) = shared::memory(c"cuda-pitfalls-memory", size_of::<MemoryPage>())
    else {
        return;
    };
    PAGE.store(page.cast(), Ordering::Release);
    TALLY.store(Box::into_raw(Box::default()), Ordering::Release);
    OWNED.store(shared::wiped_in_children(), Ordering::Release);
    TracerMessage::new("ledger", "cuInit", post::number())
        .waiting()
        .send(Some(descriptor));
    shared::close_descriptor(descriptor);
    IS_ON.store(true, Ordering::Release);
    c::at_exit(leaving);
}

/// Called at the end of the process, before the driver's own handler: its handler was registered in `cuInit`.
extern "C" fn leaving(_: *mut c_void) {
    if is_on() {
        let quiet = Quiet::begin();
        refresh(&quiet);
        post::tell_plainly("leaving", "exit", post::number());
    }
}

/// Resets the state in a forked child, which does not own anything yet.
pub fn forget() {
    IS_ON.store(false, Ordering::Release);
    TALLY.store(std::ptr::null_mut(), Ordering::Release);
    PAGE.store(std::ptr::null_mut(), Ordering::Release);
}

/// Returns the page and the tally of this process, in a thread that no handler interrupts.
fn tally(_: &Quiet) -> Option<(&'static MemoryPage, MutexGuard<'static, MemoryTally>)> {
    // SAFETY: null, or a mapping of this size that is never taken back.
    let page = unsafe { PAGE.load(Ordering::Acquire).as_ref() }?;
    // SAFETY: null, or a value that is never taken back.
    let tally = unsafe { TALLY.load(Ordering::Acquire).as_ref() }?;
    // SAFETY: null where the kernel cannot do that, or a word that is never taken back.
    let is_own = unsafe { OWNED.load(Ordering::Acquire).as_ref() }
        .is_none_or(|own| own.load(Ordering::Relaxed) == 1);
    is_own.then(|| (page, tally.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The calls around which memory is read.
#[derive(Clone, Copy)]
pub enum Around {
    /// The first call of the function on a GPU.
    First,
    /// Whenever it is called.
    Every,
    /// The first call with a value on a GPU.
    Value(usize),
    /// The first launch of a function or graph on a GPU.
    Launch(usize),
}

/// Called before a call. Has memory read if the driver may allocate some in the call. Returns the number of the
/// message; 0 if none was sent.
#[inline]
pub fn before(index: usize, around: Around) -> u64 {
    if is_on() {
        ask_before(index, around)
    } else {
        0
    }
}

fn ask_before(index: usize, around: Around) -> u64 {
    let is_wanted = match around {
        Around::First => {
            let bit = 1 << working_device();
            ASKED[index].fetch_or(bit, Ordering::Relaxed) & bit == 0
        }
        Around::Every => true,
        Around::Value(value) => is_new(value ^ working_device() << DEVICE_SHIFT),
        Around::Launch(value) => is_new(!value ^ working_device() << DEVICE_SHIFT),
    };
    if !is_wanted || AROUND.fetch_add(1, Ordering::Relaxed) >= MOST_AROUND {
        return 0;
    }
    let quiet = Quiet::begin();
    refresh(&quiet);
    let number = post::number();
    TracerMessage::new("before", special::name(index), number)
        .waiting()
        .send(None);
    number
}

/// Position of the number of a GPU in a value: above every address.
const DEVICE_SHIFT: u32 = 57;

/// Returns the number of the GPU that a call uses. A function of a library is the same on each GPU, and its code is
/// loaded on each. The last number is for a thread without a context.
fn working_device() -> usize {
    if state::has_one_device() {
        0
    } else {
        state::current_device().map_or(DEVICES - 1, device_index)
    }
}

/// Returns `true` if a value occurs for the first time. It returns `false` if the table is full.
fn is_new(value: usize) -> bool {
    let start = caller::mix(0, value) as usize >> 7;
    for place in (0..PROBES).map(|step| &SEEN[(start + step) % VALUES]) {
        match place.load(Ordering::Relaxed) {
            known if known == value => return false,
            0 if place
                .compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok() =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Called after a call around which memory is read.
#[inline]
pub fn after(index: usize, number: u64) {
    if number != 0 {
        ask_after(index, number, state::current_device());
    }
}

/// Called like [`after`], after a call with a device argument.
pub fn after_on(index: usize, number: u64, device: Option<i32>) {
    if number != 0 {
        ask_after(index, number, device);
    }
}

#[cold]
fn ask_after(index: usize, number: u64, device: Option<i32>) {
    let quiet = Quiet::begin();
    refresh(&quiet);
    let mut message = TracerMessage::new("after", special::name(index), number);
    special::add_device(&mut message, device)
        .parked()
        .send(None);
}

/// Queries the driver for the memory that pools and graphs have reserved.
fn refresh(quiet: &Quiet) {
    let Some((page, mut tally)) = tally(quiet) else {
        return;
    };
    for pool in &mut tally.pools {
        pool.reserved = reserved(pool.handle).unwrap_or(pool.reserved);
    }
    tally
        .pools
        .iter()
        .for_each(|pool| tally.write_rest(page, pool.device));
    drop(tally);
    if HAS_GRAPHS.load(Ordering::Relaxed) {
        for device in state::with_primary() {
            if let Some(bytes) = reserved_by_graphs(device) {
                page.devices[device_index(device)]
                    .graph
                    .store(bytes, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the memory that a pool has reserved.
fn reserved(pool: usize) -> Option<u64> {
    let mut bytes = 0u64;
    let ask = real_function!("cuMemPoolGetAttribute", fn(usize, i32, *mut u64))?;
    // SAFETY: the attribute is a number of 64 bits.
    (unsafe { ask(pool, POOL_RESERVED, &mut bytes) } == SUCCESS).then_some(bytes)
}

/// Returns the memory that graphs have reserved on a device.
fn reserved_by_graphs(device: i32) -> Option<u64> {
    let mut bytes = 0u64;
    let ask = real_function!("cuDeviceGetGraphMemAttribute", fn(i32, i32, *mut u64))?;
    // SAFETY: the attribute is a number of 64 bits.
    (unsafe { ask(device, GRAPH_RESERVED, &mut bytes) } == SUCCESS).then_some(bytes)
}

fn device_index(device: i32) -> usize {
    (device.max(0) as usize).min(DEVICES - 1)
}

pub fn current_context() -> usize {
    let mut context = 0usize;
    // SAFETY: the function writes one pointer.
    let _ =
        real_function!("cuCtxGetCurrent", fn(*mut usize)).map(|ask| unsafe { ask(&mut context) });
    context
}

/// Returns the word at an address that a call has written or read.
///
/// # Safety
/// The call succeeded, so the address is null or the address of such a word.
unsafe fn word(address: usize) -> usize {
    let address = address as *const usize;
    if address.is_null() {
        0
    } else {
        // SAFETY: the caller vouches for it.
        unsafe { address.read_unaligned() }
    }
}

/// Notes an allocation on the device of the current context.
fn hold(index: usize, args: &[usize], name: HeldName, kind: HeldKind, bytes: u64, pool: usize) {
    let quiet = Quiet::begin();
    if let Some(device) = state::current_device() {
        hold_at(
            &quiet,
            TakingPlace::new(kind, device_index(device), index, args),
            name,
            bytes,
            pool,
        );
    }
}

fn hold_at(quiet: &Quiet, place: TakingPlace, name: HeldName, bytes: u64, pool: usize) {
    let TakingPlace {
        kind,
        device,
        index,
        ..
    } = place;
    // Physical memory and that of pools outlives contexts.
    let is_elsewhere = kind == HeldKind::Imported
        && state::current_device().map(self::device_index) != Some(device);
    let outlives =
        (matches!(name, HeldName::Physical(_)) && !is_elsewhere) || kind == HeldKind::Pool;
    let context = if outlives { 0 } else { current_context() };
    let Some((page, mut tally)) = tally(quiet) else {
        return;
    };
    if pool != 0 && !tally.pools.iter().any(|known| known.handle == pool) {
        tally.pools.push(DriverPool {
            handle: pool,
            device,
            live: 0,
            reserved: 0,
        });
    }
    // It was freed in a way that is not intercepted.
    tally.give_back(page, name);
    let new = tally.places.len();
    let row = *tally.places.entry(place).or_insert(new.min(OWN_ROWS));
    let is_new = row == new && row < OWN_ROWS;
    let row = if row < OWN_ROWS {
        row
    } else {
        OWN_ROWS + device
    };
    if new > OWN_ROWS + ROWS {
        tally.places.retain(|_, row| *row < OWN_ROWS);
    }
    tally.take(
        page,
        name,
        HeldMemory {
            row,
            kind,
            device,
            bytes,
            context,
            pool,
            references: 1,
        },
    );
    let is_grown = pool != 0 && tally.pools.iter().any(|pool| pool.live > pool.reserved);
    drop(tally);
    if is_new {
        tell_holder(quiet, index, row, kind, device);
    } else if is_grown {
        refresh(quiet);
    }
}

#[cold]
fn tell_holder(quiet: &Quiet, index: usize, row: usize, kind: HeldKind, device: usize) {
    refresh(quiet);
    let mut message = TracerMessage::new("holder", special::name(index), post::number());
    special::add_device(&mut message, Some(device as i32)).number("row", row as i64);
    message.word("memory", kind.word()).parked().send(None);
}

impl MemoryTally {
    /// Adds an allocation.
    fn take(&mut self, page: &MemoryPage, name: HeldName, held: HeldMemory) {
        let blocks = self.change_blocks(name, held, true);
        change(page, held, blocks, true);
        self.change_pool(page, held, |live| live + held.bytes);
        self.held.insert(name, held);
        let live = self.live(page, held.device);
        if self.most.is_empty() {
            (self.most, self.told) = (vec![0; DEVICES], vec![0; DEVICES]);
        }
        self.most[held.device] = self.most[held.device].max(live);
    }

    /// Takes an allocation out.
    fn give_back(&mut self, page: &MemoryPage, name: HeldName) -> Option<HeldMemory> {
        let held = self.held.remove(&name)?;
        let blocks = self.change_blocks(name, held, false);
        change(page, held, blocks, false);
        self.change_pool(page, held, |live| live.saturating_sub(held.bytes));
        Some(held)
    }

    /// Restores an allocation that a call failed to free.
    fn put_back(&mut self, page: &MemoryPage, name: HeldName, held: HeldMemory) {
        match self.held.get_mut(&name) {
            Some(held) => held.references += 1,
            None => self.take(
                page,
                name,
                HeldMemory {
                    references: 1,
                    ..held
                },
            ),
        }
    }

    /// Changes the live bytes in the pool of an allocation, without changing its reserved bytes.
    fn change_pool(&mut self, page: &MemoryPage, held: HeldMemory, change: impl Fn(u64) -> u64) {
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.handle == held.pool) {
            pool.live = change(pool.live);
            self.write_rest(page, held.device);
        }
    }

    /// Writes the memory that the pools of a device have reserved beyond the allocations in them.
    fn write_rest(&self, page: &MemoryPage, device: usize) {
        let pools = self.pools.iter().filter(|pool| pool.device == device);
        let rest = pools
            .map(|pool| pool.reserved.saturating_sub(pool.live))
            .sum();
        page.devices[device]
            .pool_rest
            .store(rest, Ordering::Relaxed);
    }

    /// Returns the size of the blocks that are allocated or freed with an allocation, in bytes. Its first and its last
    /// block may be shared with others.
    fn change_blocks(&mut self, name: HeldName, held: HeldMemory, is_taken: bool) -> u64 {
        let HeldName::Pointer(start) = name else {
            return held.bytes;
        };
        if held.kind != HeldKind::Allocation || held.bytes == 0 {
            return held.bytes;
        }
        let end = start.saturating_add(held.bytes as usize);
        let (first, last) = (start / BLOCK, (end - 1) / BLOCK);
        let mut whole = last + 1 - first;
        for number in [first, last]
            .into_iter()
            .take(if first == last { 1 } else { 2 })
        {
            if number * BLOCK >= start && (number + 1) * BLOCK <= end {
                continue;
            }
            let others = self.blocks.entry((held.device, number)).or_default();
            *others = if is_taken {
                *others + 1
            } else {
                others.saturating_sub(1)
            };
            match (*others, is_taken) {
                (0, _) => drop(self.blocks.remove(&(held.device, number))),
                (1, true) => {}
                _ => whole -= 1,
            }
        }
        (whole * BLOCK) as u64
    }

    fn live(&self, page: &MemoryPage, device: usize) -> u64 {
        let words = &page.devices[device];
        // The program may have written there.
        words
            .live
            .load(Ordering::Relaxed)
            .wrapping_add(words.rounding.load(Ordering::Relaxed))
    }

    /// Returns `true` if a device holds more than ever before, by a margin, so that the tracer must be informed before
    /// some of it is freed.
    fn is_peak(&mut self, page: &MemoryPage, device: usize) -> bool {
        let live = self.live(page, device);
        let (Some(most), Some(told)) = (self.most.get(device), self.told.get_mut(device)) else {
            return false;
        };
        let is_told =
            live >= *most && live > told.saturating_add(PEAK_BYTES.max(*told / PEAK_PART));
        if is_told {
            *told = live;
        }
        is_told
    }
}

/// Writes the changes of an allocation. `blocks` is the size of its blocks, in bytes.
fn change(page: &MemoryPage, held: HeldMemory, blocks: u64, is_taken: bool) {
    let (row, words) = (&page.rows[held.row], &page.devices[held.device]);
    let charged = if held.is_charged() { held.bytes } else { 0 };
    let rounding = blocks.wrapping_sub(held.bytes);
    for (word, bytes) in [
        (&row.live, held.bytes),
        (&row.count, 1),
        (&words.live, charged),
        (&words.rounding, rounding),
    ] {
        word.fetch_add(
            if is_taken {
                bytes
            } else {
                bytes.wrapping_neg()
            },
            Ordering::Relaxed,
        );
    }
    // The last word that is written: the tracer reads the others again where it has changed.
    words.changes.fetch_add(1, Ordering::Relaxed);
}

/// A call that allocates or frees memory, from before the driver does it until the page has the change.
#[must_use]
pub struct CallUnderWay;

impl CallUnderWay {
    /// Notes that such a call begins.
    #[inline]
    pub fn begin() -> Option<CallUnderWay> {
        if !is_on() {
            return None;
        }
        count_under_way(1);
        Some(CallUnderWay)
    }
}

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        count_under_way(1u64.wrapping_neg());
    }
}

fn count_under_way(change: u64) {
    // SAFETY: null, or a mapping of this size that is never taken back.
    if let Some(page) = unsafe { PAGE.load(Ordering::Acquire).as_ref() } {
        page.devices[0]
            .under_way
            .fetch_add(change, Ordering::SeqCst);
    }
}

/// Takes the memory that a call is about to free out of the tally.
#[inline]
pub fn give_back(way: GivesBack, first: usize, second: usize) -> Option<HandedBack> {
    if !is_on() {
        return None;
    }
    let quiet = Quiet::begin();
    // Freeing a null address is common.
    let name = match way {
        GivesBack::Pointer if first != 0 => HeldName::Pointer(first),
        GivesBack::Handle => HeldName::Physical(first),
        GivesBack::External => HeldName::External(first),
        GivesBack::Mapping => return unmap(&quiet, first, second),
        GivesBack::Pool => return forget_pool(&quiet, first),
        GivesBack::Pointer => return None,
    };
    let under_way = CallUnderWay::begin();
    take_out(&quiet, name).map(|held| HandedBack(TakenOut::Held(name, held), under_way))
}

/// The form in which a call identifies the memory that it frees.
#[derive(Clone, Copy)]
pub enum GivesBack {
    Pointer,
    Handle,
    External,
    /// Addresses of mapped physical memory.
    Mapping,
    /// A pool, which must not be queried from then on.
    Pool,
}

/// A mapping of physical memory: its address, its length and handle, and the memory.
type HandedMapping = (usize, (usize, usize), Option<HeldMemory>);

/// The memory that was taken out of the tally before the call that frees it.
pub struct HandedBack(TakenOut, Option<CallUnderWay>);

enum TakenOut {
    Held(HeldName, HeldMemory),
    Mappings(Vec<HandedMapping>),
    Pool(DriverPool),
}

/// Takes out an allocation, or a reference to physical memory that has others.
fn take_out(quiet: &Quiet, name: HeldName) -> Option<HeldMemory> {
    tell_peak(quiet, name);
    let (page, mut tally) = tally(quiet)?;
    let held = tally.held.get_mut(&name)?;
    if held.references > 1 {
        held.references -= 1;
        return Some(*held);
    }
    let held = tally.give_back(page, name)?;
    if held.pool != 0 {
        IS_POOL_CHANGED.store(true, Ordering::Relaxed);
    }
    Some(held)
}

/// Has the tracer read memory before an allocation is freed, if the process never held more. A thread that reaches the
/// same peak finds it reported. Memory of another process is counted for this one once its owner has freed it, which is
/// not visible here.
fn tell_peak(quiet: &Quiet, name: HeldName) {
    let Some((page, mut tally)) = tally(quiet) else {
        return;
    };
    let Some((device, kind)) = tally.held.get(&name).map(|held| (held.device, held.kind)) else {
        return;
    };
    let is_peak = tally.is_peak(page, device) || kind == HeldKind::Imported;
    drop(tally);
    if is_peak {
        tell_peak_on(quiet, device);
    }
}

#[cold]
fn tell_peak_on(quiet: &Quiet, device: usize) {
    refresh(quiet);
    let mut message = TracerMessage::new("peak", "", post::number());
    special::add_device(&mut message, Some(device as i32))
        .waiting()
        .send(None);
}

/// Called before a call that may destroy a context and all its memory.
pub fn context_goes() {
    if is_on() {
        let quiet = Quiet::begin();
        let Some((page, mut tally)) = tally(&quiet) else {
            return;
        };
        let peaks: Vec<usize> = (0..DEVICES)
            .filter(|device| tally.is_peak(page, *device))
            .collect();
        drop(tally);
        peaks
            .into_iter()
            .for_each(|device| tell_peak_on(&quiet, device));
    }
}

/// Called after a call that frees something. Restores it in the tally if the call failed.
#[inline]
pub fn returned(status: u32, taken: Option<HandedBack>) {
    if let Some(HandedBack(taken, _under_way)) = taken
        && (status != SUCCESS || matches!(taken, TakenOut::Mappings(_)))
    {
        put_back(&Quiet::begin(), status, taken);
    }
}

#[cold]
fn put_back(quiet: &Quiet, status: u32, taken: TakenOut) {
    if status == SUCCESS {
        return;
    }
    let Some((page, mut tally)) = tally(quiet) else {
        return;
    };
    match taken {
        TakenOut::Held(name, held) => tally.put_back(page, name, held),
        TakenOut::Mappings(mappings) => {
            for (at, mapping, held) in mappings {
                tally.mappings.insert(at, mapping);
                held.into_iter()
                    .for_each(|held| tally.put_back(page, HeldName::Physical(mapping.1), held));
            }
        }
        TakenOut::Pool(pool) => {
            let device = pool.device;
            tally.pools.push(pool);
            tally.write_rest(page, device);
        }
    }
}

/// Forgets the mappings within a range, and the physical memory that only they kept.
fn unmap(quiet: &Quiet, start: usize, bytes: usize) -> Option<HandedBack> {
    let (_, mut tally) = tally(quiet)?;
    let end = start.saturating_add(bytes);
    let within = tally
        .mappings
        .extract_if(|at, (length, _)| *at >= start && at.saturating_add(*length) <= end);
    let within: Vec<(usize, (usize, usize))> = within.collect();
    drop(tally);
    let all = within.into_iter();
    let all =
        all.map(|(at, mapping)| (at, mapping, take_out(quiet, HeldName::Physical(mapping.1))));
    Some(HandedBack(
        TakenOut::Mappings(all.collect()),
        CallUnderWay::begin(),
    ))
}

/// Forgets a pool. Its allocations stay.
fn forget_pool(quiet: &Quiet, handle: usize) -> Option<HandedBack> {
    let (page, mut tally) = tally(quiet)?;
    let at = tally.pools.iter().position(|pool| pool.handle == handle)?;
    let pool = tally.pools.swap_remove(at);
    tally.write_rest(page, pool.device);
    Some(HandedBack(TakenOut::Pool(pool), CallUnderWay::begin()))
}

/// Called after a context was destroyed, and all memory with it: a primary one by its device, or another by its handle.
pub fn context_gone(device: Option<i32>, context: usize) {
    let quiet = Quiet::begin();
    let Some((page, mut tally)) = tally(&quiet) else {
        return;
    };
    let gone = tally.held.iter().filter(|(_, held)| match device {
        Some(device) => {
            held.device == device_index(device)
                && held.context != 0
                && !state::is_other(held.context)
        }
        None => held.context == context,
    });
    let gone: Vec<HeldName> = gone.map(|(name, _)| *name).collect();
    for name in gone {
        tally.give_back(page, name);
    }
}

/// Records the memory that a successful call has allocated, from its arguments. There is one function for each way of
/// calls.txt.
///
/// # Safety
/// The arguments must come from a call that succeeded. This also applies to the functions below.
pub unsafe fn alloc(index: usize, args: &[usize]) {
    // SAFETY: the caller vouches for it; so everywhere below.
    hold(
        index,
        args,
        HeldName::Pointer(unsafe { word(args[0]) }),
        HeldKind::Allocation,
        args[1] as u64,
        0,
    );
}

/// # Safety
/// As above.
pub unsafe fn managed(index: usize, args: &[usize]) {
    // SAFETY: as above.
    hold(
        index,
        args,
        HeldName::Pointer(unsafe { word(args[0]) }),
        HeldKind::Managed,
        args[1] as u64,
        0,
    );
}

/// # Safety
/// As above.
pub unsafe fn pitch(index: usize, args: &[usize]) {
    // SAFETY: as above.
    let (pointer, pitch) = unsafe { (word(args[0]), word(args[1])) };
    hold(
        index,
        args,
        HeldName::Pointer(pointer),
        HeldKind::Allocation,
        pitch.saturating_mul(args[3]) as u64,
        0,
    );
}

/// Records memory from the current pool of the stream's device.
///
/// # Safety
/// The conditions of [`alloc`].
pub unsafe fn pool(index: usize, args: &[usize]) {
    let mut pool = 0usize;
    let device = state::current_device().unwrap_or(0);
    // SAFETY: the function writes one pointer.
    let _ = real_function!("cuDeviceGetMemPool", fn(*mut usize, i32))
        .map(|ask| unsafe { ask(&mut pool, device) });
    // SAFETY: as above.
    unsafe { from_pool(index, args, pool, args[2]) };
}

/// # Safety
/// As above.
pub unsafe fn named_pool(index: usize, args: &[usize]) {
    // SAFETY: as above.
    unsafe { from_pool(index, args, args[2], args[3]) };
}

/// # Safety
/// As above.
unsafe fn from_pool(index: usize, args: &[usize], pool: usize, stream: usize) {
    let mut capturing = 0i32;
    // SAFETY: the function writes one int.
    let _ = real_function!("cuStreamIsCapturing", fn(usize, *mut i32))
        .map(|ask| unsafe { ask(stream, &mut capturing) });
    if capturing == 0 {
        // SAFETY: as above.
        hold(
            index,
            args,
            HeldName::Pointer(unsafe { word(args[0]) }),
            HeldKind::Pool,
            args[1] as u64,
            pool,
        );
    }
}

/// Called after a synchronization, when pools free the memory that they need not keep.
///
/// # Safety
/// The conditions of [`alloc`].
pub unsafe fn synced(_index: usize, _args: &[usize]) {
    if IS_POOL_CHANGED.swap(false, Ordering::Relaxed) {
        refresh(&Quiet::begin());
    }
}

/// # Safety
/// As above.
pub unsafe fn graph(_index: usize, _args: &[usize]) {
    HAS_GRAPHS.store(true, Ordering::Relaxed);
}

/// # Safety
/// As above.
pub unsafe fn physical(index: usize, args: &[usize]) {
    // The properties begin with the type, the kinds of handles, and the location.
    // SAFETY: as above.
    let (handle, [_, _, location, device]) =
        unsafe { (word(args[0]), (args[2] as *const [u32; 4]).read_unaligned()) };
    if location == LOCATION_DEVICE {
        let quiet = Quiet::begin();
        let place = TakingPlace::new(HeldKind::Physical, device_index(device as i32), index, args);
        hold_at(&quiet, place, HeldName::Physical(handle), args[1] as u64, 0);
    }
}

/// Adds a handle of physical memory.
///
/// # Safety
/// The conditions of [`alloc`].
pub unsafe fn retained(_index: usize, args: &[usize]) {
    // SAFETY: as above.
    refer(unsafe { word(args[0]) }, 0);
}

/// # Safety
/// As above.
pub unsafe fn mapped(_index: usize, args: &[usize]) {
    let (address, bytes, offset, handle) = (args[0], args[1], args[2], args[3]);
    if let Some((_, mut tally)) = tally(&Quiet::begin()) {
        tally.mappings.insert(address, (bytes, handle));
    }
    refer(handle, offset as u64 + bytes as u64);
}

/// Records a reference to physical memory. Imported memory has no size before it is mapped.
fn refer(handle: usize, bytes: u64) {
    let quiet = Quiet::begin();
    let Some((page, mut tally)) = tally(&quiet) else {
        return;
    };
    let name = HeldName::Physical(handle);
    let Some(mut held) = tally.held.get(&name).copied() else {
        return;
    };
    held.references += 1;
    if held.kind == HeldKind::Imported && held.bytes < bytes {
        tally.give_back(page, name);
        held.bytes = bytes;
        tally.take(page, name, held);
    } else {
        tally.held.insert(name, held);
    }
}

/// Records physical memory of another process. Its size is known when it is mapped.
///
/// # Safety
/// The conditions of [`alloc`].
pub unsafe fn import(index: usize, args: &[usize]) {
    // SAFETY: as above.
    let handle = unsafe { word(args[0]) };
    let mut properties = [0u32; 8];
    // SAFETY: the function writes 32 bytes.
    let asked = real_function!(
        "cuMemGetAllocationPropertiesFromHandle",
        fn(*mut u32, usize)
    )
    .map(|ask| unsafe { ask(properties.as_mut_ptr(), handle) });
    let [_, _, location, device, ..] = properties;
    match asked {
        Some(SUCCESS) if location != LOCATION_DEVICE => {}
        Some(SUCCESS) => {
            let taker =
                TakingPlace::new(HeldKind::Imported, device_index(device as i32), index, args);
            hold_at(&Quiet::begin(), taker, HeldName::Physical(handle), 0, 0);
        }
        _ => hold(
            index,
            args,
            HeldName::Physical(handle),
            HeldKind::Imported,
            0,
            0,
        ),
    }
}

/// Records memory of another process, by its address here.
///
/// # Safety
/// The conditions of [`alloc`].
pub unsafe fn opened(index: usize, args: &[usize]) {
    // SAFETY: as above.
    let pointer = unsafe { word(args[0]) };
    let (mut start, mut bytes) = (0usize, 0usize);
    // SAFETY: the function writes two words.
    let _ = real_function!("cuMemGetAddressRange_v2", fn(*mut usize, *mut usize, usize))
        .map(|ask| unsafe { ask(&mut start, &mut bytes, pointer) });
    hold(
        index,
        args,
        HeldName::Pointer(pointer),
        HeldKind::Imported,
        bytes as u64,
        0,
    );
}

/// Reads `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`. The size follows the type and the handle.
///
/// # Safety
/// The conditions of [`alloc`].
pub unsafe fn external(index: usize, args: &[usize]) {
    // SAFETY: as above.
    let (handle, bytes) = unsafe { (word(args[0]), word(args[1] + 24)) };
    hold(
        index,
        args,
        HeldName::External(handle),
        HeldKind::Imported,
        bytes as u64,
        0,
    );
}

/// Returns `true` if the memory that a call has allocated is recorded.
#[inline]
pub fn is_taken(status: u32) -> bool {
    status == SUCCESS && is_on()
}
