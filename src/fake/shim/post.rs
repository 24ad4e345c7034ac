//! Reports events to the tracer, and waits until it has read the state of the process.
//!
//! Every message has its own connection: a descriptor that stays open would be closed, or taken over, by programs that
//! close all descriptors. A tracer that is gone costs nothing: its socket refuses connections. A stopped tracer costs a
//! process a wait of [`PATIENCE_NS`] and a few short ones; then it gets no more messages. A process that stops
//! reporting records that in memory that it shares with the tracer.

use crate::c::{self, Connection, NotOpen, SockaddrUn};
use crate::shared;
use std::ffi::CStr;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Maximum time that a thread stays parked.
const PATIENCE_NS: u64 = 2_000_000_000;
/// The same after a timeout.
const SHORT_PATIENCE_NS: u64 = 250_000_000;
/// Number of consecutive timeouts after which the tracer is considered lost.
const MOST_TIMEOUTS: u32 = 8;

/// The files of a trace's folder (src/tracer/place.rs).
const SOCKET: &[u8] = b"/socket";
const TALLY: &[u8] = b"/tally\0";
/// A path that exists only if the driver is simulated (src/trace/tracer/machine.rs).
const FAKE: &[u8] = b"/machine/libcuda.so.1\0";
/// Maximum number of reports of a process about missing items.
const MOST_ABSENT: u32 = 64;
/// Maximum number of return addresses that are sent.
const MOST_FRAMES: usize = 96;
/// The longest path of a folder: a socket's has room for a hundred bytes.
const LONGEST: usize = 100;

/// The location of a trace.
struct TraceSocket {
    socket: SockaddrUn,
    tally: [u8; LONGEST + TALLY.len()],
}

static TRACE: OnceLock<TraceSocket> = OnceLock::new();

/// The data that every process of a trace shares with the tracer. The tracer creates it as a file of zeros, and writes
/// the first number before the program is started.
#[repr(C)]
pub struct Tally {
    /// Number of seccomp filters of the tracer.
    filters: AtomicU64,
    /// Number of times that a process stopped reporting.
    silent: AtomicU64,
    /// The first of these processes, each with [`Unreported`] in its lowest bit.
    processes: [AtomicU64; 32],
    /// Number of times that a process loaded the forwarding libcuda, and with it the real one, or the simulated NVML.
    loads: AtomicU64,
}

/// The events that a process did not report.
#[derive(Clone, Copy)]
pub enum Unreported {
    /// A message, or everything from now on.
    Rest = 0,
    /// The calls of a libcuda that it opened by another way than by name.
    OtherLibcuda = 1,
}

/// The tally of a process that cannot share one.
static PRIVATE: Tally = Tally {
    filters: AtomicU64::new(0),
    silent: AtomicU64::new(0),
    processes: [const { AtomicU64::new(0) }; 32],
    loads: AtomicU64::new(0),
};
static TALLIED: AtomicPtr<Tally> = AtomicPtr::new(std::ptr::null_mut());

/// `true` if the tracer is missing, or repeatedly did not answer.
static IS_LOST: AtomicBool = AtomicBool::new(false);
static TIMEOUTS: AtomicU32 = AtomicU32::new(0);

/// The number of the next message of this process. It pairs the message before a call with the message after it.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a number for the messages about one call.
pub fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Enables messages to the trace in a directory, or disables them if `folder` is empty. Called once, when the library
/// is loaded: later changes of the environment by the program have no effect.
pub fn start(folder: &[u8]) {
    match socket_in(folder) {
        // Done at once, because a program may close what it could be opened with later, or leave the folder's mount
        // namespace. The tracer sees by the mapping that this process reports.
        Some(trace) => {
            let _ = TRACE.set(trace);
            tally();
        }
        None => IS_LOST.store(true, Ordering::Relaxed),
    }
}

fn socket_in(folder: &[u8]) -> Option<TraceSocket> {
    let folder = folder
        .get(..folder.len())
        .filter(|folder| folder.starts_with(b"/") && folder.len() <= LONGEST)?;
    let mut tally = [0; LONGEST + TALLY.len()];
    let whole = tally.iter_mut().zip(folder.iter().chain(TALLY));
    whole.for_each(|(to, from)| *to = *from);
    let mut socket = [0; LONGEST + SOCKET.len()];
    let whole = socket.iter_mut().zip(folder.iter().chain(SOCKET));
    let length = whole.map(|(to, from)| *to = *from).count();
    Some(TraceSocket {
        socket: SockaddrUn::from_path(socket.get(..length)?)?,
        tally,
    })
}

/// Returns the directory of the trace; empty without a trace.
pub fn folder() -> &'static [u8] {
    let known = TRACE
        .get()
        .and_then(|trace| CStr::from_bytes_until_nul(&trace.tally).ok());
    let folder = known.and_then(|tally| {
        tally
            .to_bytes()
            .strip_suffix(TALLY.strip_suffix(b"\0").unwrap_or(TALLY))
    });
    folder.unwrap_or_default()
}

/// Returns the data that is shared with the tracer, mapped at the start. It stays when a program closes its
/// descriptors, and a forked child has it too.
fn tally() -> &'static Tally {
    let known = TALLIED.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: the pointer belongs to a mapping that is never unmapped, or to the static value.
        return unsafe { &*known };
    }
    let path = TRACE
        .get()
        .and_then(|trace| CStr::from_bytes_until_nul(&trace.tally).ok());
    let mapped = path.and_then(|path| shared::file(path, size_of::<Tally>(), true));
    if mapped.is_none() {
        // A process that has become another user by now may only read it. It is gone if the trace has ended.
        match path.and_then(|path| shared::file(path, size_of::<Tally>(), false)) {
            // SAFETY: the mapping is as long as the type, and is never taken back.
            Some(read) => PRIVATE.filters.store(
                unsafe { &*read.cast::<Tally>() }
                    .filters
                    .load(Ordering::Relaxed),
                Ordering::Relaxed,
            ),
            None => IS_LOST.store(true, Ordering::Relaxed),
        }
    }
    let found = mapped.map_or(&raw const PRIVATE as *mut Tally, |mapped| mapped.cast());
    TALLIED.store(found, Ordering::Release);
    // SAFETY: as above.
    unsafe { &*found }
}

/// `true` once a message of this process could not be delivered.
static HAS_LOST_MESSAGE: AtomicBool = AtomicBool::new(false);

/// Stops reporting, and informs the tracer that its data is incomplete.
fn fall_silent() {
    if !IS_LOST.swap(true, Ordering::Relaxed) {
        note_unreported(Unreported::Rest);
    }
}

/// Lets the tracer know, without a message, that this process did something that it did not report.
pub fn note_unreported(what: Unreported) {
    let tally = tally();
    let at = tally.silent.fetch_add(1, Ordering::Relaxed) as usize;
    if let Some(process) = tally.processes.get(at) {
        process.store(
            u64::from(std::process::id()) << 1 | what as u64,
            Ordering::Relaxed,
        );
    }
}

/// Lets the tracer know, without a message, who opened libcuda.
pub fn note_load() {
    tally().loads.fetch_add(1, Ordering::Relaxed);
}

/// Called before a program is started. Stops reporting if the new program could not find the trace's directory, below
/// another root directory or in another mount namespace. It may run in a signal handler, and in the child of `vfork`:
/// it allocates nothing, and takes no lock of this process.
pub fn stop_if_unreachable() {
    let _errno = c::Errno::kept();
    let path = TRACE
        .get()
        .and_then(|trace| CStr::from_bytes_until_nul(&trace.tally).ok());
    let is_reachable = path.is_some_and(|path| c::Descriptor::open(path, false).is_some());
    if is_heard() && !is_reachable {
        fall_silent();
    }
}

/// Returns `true` if a seccomp filter was added after the tracer's own, which may kill a process that creates a socket.
fn is_filtered() -> bool {
    c::seccomp_filters().is_some_and(|filters| filters > tally().filters.load(Ordering::Relaxed))
}

/// Sends the bytes of a message, with a descriptor if given, and waits for the tracer if requested. It allocates
/// nothing and takes no lock: a program may start another from a signal handler.
pub fn send(bytes: &[u8], descriptor: Option<i32>, waits: bool) {
    if !is_heard() {
        return;
    }
    let Some(trace) = TRACE.get() else { return };
    if is_filtered() {
        return fall_silent();
    }
    // Without the tally there is no tracer.
    if !is_heard() {
        return;
    }
    let patience = if TIMEOUTS.load(Ordering::Relaxed) == 0 {
        PATIENCE_NS
    } else {
        SHORT_PATIENCE_NS
    };
    let deadline = c::now_ns() + patience;
    let is_told = match Connection::open(&trace.socket, deadline) {
        Ok(connection) => {
            connection.send(bytes, descriptor) && (!waits || connection.wait(deadline))
        }
        Err(NotOpen::Late) => {
            // The message is lost, so the trace must not pass for complete.
            if !HAS_LOST_MESSAGE.swap(true, Ordering::Relaxed) {
                note_unreported(Unreported::Rest);
            }
            false
        }
        Err(NotOpen::Refused) => return fall_silent(),
    };
    if is_told {
        TIMEOUTS.store(0, Ordering::Relaxed);
    } else if TIMEOUTS.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_TIMEOUTS {
        fall_silent();
    }
}

/// Returns `true` if the driver is simulated.
pub fn is_simulated() -> bool {
    let _errno = c::Errno::kept();
    let fake = [folder(), FAKE].concat();
    CStr::from_bytes_with_nul(&fake).is_ok_and(|fake| c::Descriptor::open(fake, false).is_some())
}

/// Reports that a program requested something that a machine with a GPU may have but the simulated driver does not. A
/// program that gives up after that behaves differently than on such a machine. Nothing is reported with a real driver.
/// Returns `true` if a report was sent.
pub fn tell_absent(call: &str, name: &[u8]) -> bool {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let _errno = c::Errno::kept();
    let is_told =
        is_heard() && is_simulated() && TOLD.fetch_add(1, Ordering::Relaxed) < MOST_ABSENT;
    if is_told {
        TracerMessage::new("absent", call, number())
            .bytes("name", Some(name))
            .parked()
            .send(None);
    }
    is_told
}

/// Reports a function that a program looked up and that is missing. Also reports that the process then looked up an
/// existing function, or calls one.
pub fn tell_lookup(call: &str, name: &[u8], is_there: bool) {
    static LAST_IS_ABSENT: AtomicBool = AtomicBool::new(false);
    if !is_there {
        LAST_IS_ABSENT.fetch_or(tell_absent(call, name), Ordering::Relaxed);
    } else if LAST_IS_ABSENT.swap(false, Ordering::Relaxed) {
        TracerMessage::new("found", call, number())
            .waiting()
            .send(None);
    }
}

/// Sends a notice without allocating: a signal handler that exits may have interrupted `malloc`.
pub fn tell_plainly(kind: &str, call: &str, number: u64) {
    let mut room = [0; 256];
    let mut rest = &mut room[..];
    let (t_ns, tid, pthread) = (c::now_ns(), c::thread_id(), c::pthread_id());
    let written = writeln!(
        rest,
        "{{\"kind\":\"{kind}\",\"call\":\"{call}\",\"number\":{number},\"t_ns\":{t_ns},\"tid\":{tid},\"pthread\":{pthread}}}"
    );
    let left = rest.len();
    if written.is_ok() && is_heard() {
        send(&room[..room.len() - left], None, true);
    }
}

/// Returns `true` if messages can reach the tracer, so that they are worth composing.
pub fn is_heard() -> bool {
    !IS_LOST.load(Ordering::Relaxed)
}

/// A message: one JSON object on one line. `errno` is restored when this is dropped.
pub struct TracerMessage {
    text: String,
    is_parked: bool,
    _errno: c::Errno,
}

impl TracerMessage {
    /// Returns a numbered message about a call, for an event of the trace with this name.
    pub fn event(event: &str, call: &str, number: u64) -> TracerMessage {
        TracerMessage::begin("event", event, call, number)
    }

    /// Returns a message of another kind.
    pub fn new(kind: &str, call: &str, number: u64) -> TracerMessage {
        TracerMessage::begin("kind", kind, call, number)
    }

    fn begin(tag: &str, name: &str, call: &str, number: u64) -> TracerMessage {
        let errno = c::Errno::kept();
        let mut message = TracerMessage {
            text: String::with_capacity(1024),
            is_parked: false,
            _errno: errno,
        };
        message.text.push('{');
        message
            .word(tag, name)
            .word("call", call)
            .number("number", number as i64);
        message
            .number("t_ns", c::now_ns() as i64)
            .number("tid", c::thread_id());
        message.number("pthread", c::pthread_id() as i64);
        message
    }

    fn key(&mut self, key: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push('"');
        self.text.push_str(key);
        self.text.push_str("\":");
    }

    /// Adds a number.
    pub fn number(&mut self, key: &str, number: i64) -> &mut TracerMessage {
        self.key(key);
        self.text.push_str(&number.to_string());
        self
    }

    /// Adds a boolean.
    pub fn flag(&mut self, key: &str, flag: bool) -> &mut TracerMessage {
        self.key(key);
        self.text.push_str(if flag { "true" } else { "false" });
        self
    }

    /// Adds a text of ours.
    pub fn word(&mut self, key: &str, word: &str) -> &mut TracerMessage {
        self.bytes(key, Some(word.as_bytes()))
    }

    /// Adds a text of the program, or null.
    pub fn bytes(&mut self, key: &str, bytes: Option<&[u8]>) -> &mut TracerMessage {
        self.key(key);
        match bytes {
            Some(bytes) => self.quote(bytes),
            None => self.text.push_str("null"),
        }
        self
    }

    /// Adds a list of texts.
    pub fn list(
        &mut self,
        key: &str,
        texts: impl IntoIterator<Item = String>,
    ) -> &mut TracerMessage {
        self.key(key);
        self.text.push('[');
        for (index, text) in texts.into_iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            self.quote(text.as_bytes());
        }
        self.text.push(']');
        self
    }

    /// Pairs of texts.
    pub fn pairs(&mut self, key: &str, pairs: &[(Vec<u8>, Vec<u8>)]) -> &mut TracerMessage {
        self.key(key);
        self.text.push('{');
        for (index, (name, value)) in pairs.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            self.quote(name);
            self.text.push(':');
            self.quote(value);
        }
        self.text.push('}');
        self
    }

    fn quote(&mut self, bytes: &[u8]) {
        self.text.push('"');
        for character in String::from_utf8_lossy(bytes).chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                c if (c as u32) < 0x20 => self.text.push_str(&format!("\\u{:04x}", c as u32)),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    /// Adds the stack, and makes the thread wait until the tracer has looked at it from outside. During that time the
    /// thread opens the file of its current line for the tracer.
    pub fn parked(&mut self) -> &mut TracerMessage {
        self.key("frames");
        let found = is_heard().then(c::frames::<MOST_FRAMES>);
        let frames: Vec<String> = found
            .into_iter()
            .flatten()
            .map(|frame| frame.to_string())
            .collect();
        self.text.push('[');
        self.text.push_str(&frames.join(","));
        self.text.push(']');
        self.is_parked = true;
        self
    }

    /// Makes the thread wait like [`TracerMessage::parked`], for messages without a stack.
    pub fn waiting(&mut self) -> &mut TracerMessage {
        self.is_parked = true;
        self
    }

    /// Sends the message, with a descriptor if given, and waits if it is parked.
    pub fn send(&mut self, descriptor: Option<i32>) {
        if !is_heard() {
            return;
        }
        self.text.push_str("}\n");
        send(self.text.as_bytes(), descriptor, self.is_parked);
    }
}
