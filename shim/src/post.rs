//! Telling the tracer what happens, and waiting until it has looked.
//!
//! Every message has a connection of its own: a descriptor that stays open would be closed, or taken
//! over, by programs that close all descriptors. A tracer that is gone costs nothing: its socket
//! refuses. One that is stopped costs a process a wait of [`PATIENCE_NS`] and a few short ones; after
//! that it is left alone.

use crate::c::{self, Connection};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How long a thread stays parked at most.
const PATIENCE_NS: u64 = 2_000_000_000;
/// The same after a timeout.
const SHORT_PATIENCE_NS: u64 = 250_000_000;
/// After so many timeouts in a row the tracer is taken for lost.
const MOST_TIMEOUTS: u32 = 8;

/// Where the tracer listens, and the token by which it knows its own messages, each ended by NUL. The tracer
/// writes them into its copy of the library, behind the mark by which it finds the place.
#[used]
#[unsafe(link_section = ".data")]
static ADDRESS: [u8; ADDRESS_BYTES] = {
    let mut bytes = [0; ADDRESS_BYTES];
    let mark = b"cuda-pitfalls:address:";
    let mut at = 0;
    while at < mark.len() {
        bytes[at] = mark[at];
        at += 1;
    }
    bytes
};
const ADDRESS_BYTES: usize = 512;
const MARK_BYTES: usize = 22;

/// Whether the tracer is not there, or did not answer again and again.
static IS_LOST: AtomicBool = AtomicBool::new(false);
static TIMEOUTS: AtomicU32 = AtomicU32::new(0);

/// Numbers the messages of a process, so that what came before a call is met with what came after.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number for the messages about one call.
pub fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The parts of [`ADDRESS`]: the socket's path and the token.
fn address() -> Option<(Vec<u8>, Vec<u8>)> {
    // SAFETY: the array is written by nobody while the library is loaded; the file was changed, so
    // the compiler must not take the value that it saw.
    let bytes = unsafe { std::ptr::read_volatile(&raw const ADDRESS) };
    let mut parts = bytes.get(MARK_BYTES..)?.split(|byte| *byte == 0);
    let (path, token) = (parts.next()?.to_vec(), parts.next()?.to_vec());
    (!path.is_empty()).then_some((path, token))
}

/// Has nothing told where no tracer listens: calls are counted all the same.
#[allow(dead_code, reason = "the hook is nowhere without a tracer")]
pub fn start() {
    if address().is_none() {
        IS_LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether messages are worth being put together.
pub fn is_heard() -> bool {
    !IS_LOST.load(Ordering::Relaxed)
}

/// A message: one JSON object on one line.
pub struct Message {
    text: String,
    is_parked: bool,
}

impl Message {
    /// A message of an event of the trace, by its name there, about a call; numbered.
    pub fn event(event: &str, call: &str, number: u64) -> Message {
        Message::begin("event", event, call, number)
    }

    /// A message of another kind.
    #[allow(dead_code, reason = "each library has messages of its own")]
    pub fn of(kind: &str, call: &str, number: u64) -> Message {
        Message::begin("kind", kind, call, number)
    }

    fn begin(tag: &str, name: &str, call: &str, number: u64) -> Message {
        let mut message = Message { text: String::with_capacity(1024), is_parked: false };
        message.text.push('{');
        message.word(tag, name).word("call", call).number("number", number as i64);
        message.number("t_ns", c::now_ns() as i64).number("tid", c::thread_id());
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

    /// A number.
    pub fn number(&mut self, key: &str, number: i64) -> &mut Message {
        self.key(key);
        self.text.push_str(&number.to_string());
        self
    }

    /// A boolean.
    pub fn flag(&mut self, key: &str, flag: bool) -> &mut Message {
        self.key(key);
        self.text.push_str(if flag { "true" } else { "false" });
        self
    }

    /// A text of ours.
    pub fn word(&mut self, key: &str, word: &str) -> &mut Message {
        self.bytes(key, Some(word.as_bytes()))
    }

    /// A text of the program's, or null.
    pub fn bytes(&mut self, key: &str, bytes: Option<&[u8]>) -> &mut Message {
        self.key(key);
        match bytes {
            Some(bytes) => self.quote(bytes),
            None => self.text.push_str("null"),
        }
        self
    }

    /// Texts.
    #[allow(dead_code, reason = "the forwarding library alone has lists")]
    pub fn list(&mut self, key: &str, texts: impl IntoIterator<Item = String>) -> &mut Message {
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
    pub fn pairs(&mut self, key: &str, pairs: &[(Vec<u8>, Vec<u8>)]) -> &mut Message {
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

    /// Adds the stack, and has the thread wait until the tracer has looked at it from outside.
    pub fn parked(&mut self) -> &mut Message {
        self.key("frames");
        let found = if is_heard() { c::frames() } else { Default::default() };
        let frames: Vec<String> = found.iter().map(usize::to_string).collect();
        self.text.push('[');
        self.text.push_str(&frames.join(","));
        self.text.push(']');
        self.is_parked = true;
        self
    }

    /// Has the thread wait as [`Message::parked`] does, for what needs no stack.
    #[allow(dead_code, reason = "the forwarding library alone waits without a stack")]
    pub fn waiting(&mut self) -> &mut Message {
        self.is_parked = true;
        self
    }

    /// Sends it, with a descriptor if there is one, and waits if it is parked.
    pub fn send(&mut self, descriptor: Option<i32>) {
        if !is_heard() {
            return;
        }
        let Some((path, token)) = address() else { return };
        self.flag("parked", self.is_parked);
        self.bytes("token", Some(&token));
        self.text.push_str("}\n");
        let patience = if TIMEOUTS.load(Ordering::Relaxed) == 0 { PATIENCE_NS } else { SHORT_PATIENCE_NS };
        let deadline = c::now_ns() + patience;
        let Some(connection) = Connection::open(&path, deadline) else {
            IS_LOST.store(true, Ordering::Relaxed);
            return;
        };
        let sent = connection.send(self.text.as_bytes(), descriptor);
        if sent && (!self.is_parked || connection.wait(deadline)) {
            TIMEOUTS.store(0, Ordering::Relaxed);
        } else if TIMEOUTS.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_TIMEOUTS {
            IS_LOST.store(true, Ordering::Relaxed);
        }
    }
}
