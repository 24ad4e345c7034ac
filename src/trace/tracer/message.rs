//! What the libraries in a traced program send: one JSON object per connection (src/fake/shim/post.rs).
//!
//! A program may send anything. What is too long, comes too late, or is not what the libraries send is dropped, and so
//! is a descriptor that is not memory of a fixed length.

use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Deserialize;

use crate::EventKind;

/// Longer messages are not read: a stack has some kilobytes, the list of names twenty, and a socket takes no more at once.
const LONGEST: usize = 256 << 10;
/// A message is sent whole and at once; its sender waits no longer than this.
pub(super) const PATIENCE_NS: u64 = 2_000_000_000;
/// More devices than a process can see (src/fake/shim/counts.rs).
const MOST_DEVICES: usize = 64;
/// More lanes than a process has, and more functions than there are (src/fake/shim/counts.rs).
const MOST_LANES: usize = 64;
const MOST_NAMES: usize = 4096;
/// Names of functions, kinds and variables are shorter.
const LONGEST_NAME: usize = 128;
/// More frames are not sent (src/fake/shim/c.rs).
const MOST_FRAMES: usize = 128;

/// A message.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) call: String,
    /// Pairs what came before a call with what came after it.
    pub(super) number: u64,
    pub(super) t_ns: u64,
    /// The thread as the program's own PID namespace numbers it.
    pub(super) tid: u32,
    /// The thread as the C library knows it.
    pub(super) pthread: u64,
    /// Return addresses, innermost first; absent where the stack is not asked for.
    #[serde(default)]
    pub(super) frames: Vec<u64>,
    pub(super) device: Option<i32>,
    /// The GPU's UUID in hex; empty where the driver did not say.
    pub(super) uuid: Option<String>,
    pub(super) status: Option<i64>,
    pub(super) elapsed_ns: Option<u64>,
    /// Whether its thread waits until it is answered.
    pub(super) parked: bool,
    #[serde(flatten)]
    pub(super) content: Content,
}

/// What it says.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    /// An event, as the document has it, but for UUIDs in hex.
    Event(EventKind),
    /// Anything else.
    Notice(Notice),
}

/// A message that is no event.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Notice {
    /// A process counts from now on, in memory that comes with the message.
    Hello { devices: usize, lanes: usize, names: Vec<String> },
    /// A call is about to be made whose effect on memory is wanted.
    Before,
    /// A process has written so many variables that it tells no more of them.
    Silent,
    /// A program is about to be started without the trace's variables.
    Lost { program: String },
}

/// A message with who sent it, by the kernel's word. Dropping the connection lets its thread go on.
pub(super) struct Delivery {
    pub(super) message: Message,
    /// The process in our PID namespace.
    pub(super) pid: u32,
    /// The memory of its counts, if it came with the message and is as the message says.
    pub(super) counts: Option<File>,
    /// The connection that its thread waits on.
    pub(super) waiting: UnixStream,
}

/// Whether the thread that sent a message still waits: one that does not has moved on.
pub(super) fn is_parked(waiting: &UnixStream) -> bool {
    let mut fds = [PollFd::new(waiting, PollFlags::RDHUP)];
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
        && fds.iter().all(|fd| !fd.revents().intersects(gone))
}

/// A connection whose message has not come as a whole.
pub(super) struct Incoming {
    /// What to poll.
    pub(super) connection: UnixStream,
    pid: u32,
    deadline_ns: u64,
    bytes: Vec<u8>,
    passed: Option<OwnedFd>,
}

/// What has become of a connection.
pub(super) enum Arrival {
    /// The message has come.
    Whole(Box<Delivery>),
    /// More is to come.
    More(Incoming),
    /// It is dropped.
    Dropped,
}

impl Incoming {
    /// A connection of a process that may tell something.
    pub(super) fn new(connection: UnixStream, pid: u32, now_ns: u64) -> Incoming {
        let deadline_ns = now_ns.saturating_add(PATIENCE_NS);
        Incoming { connection, pid, deadline_ns, bytes: Vec::new(), passed: None }
    }

    /// Takes what has come, without waiting. `room` is where it is read to.
    pub(super) fn read(mut self, room: &mut [u8], now_ns: u64) -> Arrival {
        loop {
            let mut beside = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut beside = RecvAncillaryBuffer::new(&mut beside);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let got = match recvmsg(&self.connection, &mut [IoSliceMut::new(room)], &mut beside, flags) {
                Ok(got) => got.bytes,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if now_ns < self.deadline_ns => return Arrival::More(self),
                Err(_) => return Arrival::Dropped,
            };
            for part in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = part {
                    self.passed = fds.last().or(self.passed);
                }
            }
            self.bytes.extend_from_slice(room.get(..got).unwrap_or_default());
            if got == 0 || self.bytes.len() > LONGEST {
                return Arrival::Dropped;
            }
            if self.bytes.last() == Some(&b'\n') {
                return self.whole().map_or(Arrival::Dropped, |received| Arrival::Whole(Box::new(received)));
            }
        }
    }

    fn whole(self) -> Option<Delivery> {
        let message: Message = serde_json::from_slice(&self.bytes).ok()?;
        if !message.is_valid() {
            return None;
        }
        let counts = match &message.content {
            Content::Notice(Notice::Hello { devices, lanes, names }) => {
                self.passed.filter(|fd| is_sealed(fd, counted_bytes(*devices, *lanes, names.len()))).map(File::from)
            }
            _ => None,
        };
        Some(Delivery { message, pid: self.pid, counts, waiting: self.connection })
    }
}

/// How much memory the counts of a process take (src/fake/shim/counts.rs).
pub(super) fn counted_bytes(devices: usize, lanes: usize, names: usize) -> u64 {
    (lanes * (2 * names + 3 * devices) * size_of::<u64>()) as u64
}

/// Whether a descriptor is that of memory of this length, which nobody can change.
fn is_sealed(fd: &OwnedFd, bytes: u64) -> bool {
    let seals = rustix::fs::fcntl_get_seals(fd);
    let is_fixed = seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK | SealFlags::GROW));
    is_fixed && rustix::fs::fstat(fd).is_ok_and(|data| u64::try_from(data.st_size) == Ok(bytes))
}

impl Message {
    /// Whether it is one that the libraries could have sent.
    fn is_valid(&self) -> bool {
        let is_device = |device: i32| usize::try_from(device).is_ok_and(|device| device < MOST_DEVICES);
        let is_right = match &self.content {
            Content::Event(EventKind::Init { variables, .. }) => variables.keys().all(|name| is_variable(name)),
            Content::Event(EventKind::Variable { name, .. }) => is_variable(name),
            Content::Event(EventKind::InitDone { visible, gpus }) => {
                visible.is_none_or(|visible| visible as usize <= MOST_DEVICES)
                    && gpus.len() <= MOST_DEVICES
                    && gpus.iter().all(|gpu| is_uuid(gpu))
            }
            Content::Event(EventKind::Forked { contexts, .. }) => *contexts as usize <= MOST_DEVICES,
            Content::Notice(Notice::Hello { devices, lanes, names }) => {
                *devices <= MOST_DEVICES
                    && (1..=MOST_LANES).contains(lanes)
                    && (1..=MOST_NAMES).contains(&names.len())
                    && names.iter().all(|name| is_word(name))
            }
            Content::Event(_) | Content::Notice(_) => true,
        };
        // Who says hello has not made a call.
        let is_hello = matches!(self.content, Content::Notice(Notice::Hello { .. }));
        is_right
            && (is_word(&self.call) || (is_hello && self.call.is_empty()))
            && self.frames.len() <= MOST_FRAMES
            // The driver calls a device that it does not know -1.
            && self.device.is_none_or(|device| device == -1 || is_device(device))
            && self.uuid.as_deref().is_none_or(is_uuid)
    }
}

/// Whether a text could be the name of a function.
fn is_word(text: &str) -> bool {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(is_of_names)
}

/// Whether a text is the name of a variable that the libraries tell of.
fn is_variable(text: &str) -> bool {
    text.len() <= LONGEST_NAME
        && cuda_pitfalls_fake::is_of_cuda(text.as_bytes())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text is a UUID in hex, or empty.
fn is_uuid(text: &str) -> bool {
    text.is_empty() || (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a message becomes that comes in one piece.
    fn received(text: &str, passed: Option<OwnedFd>) -> Option<Delivery> {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        Incoming { connection: ours, pid: 1, deadline_ns: 0, bytes: text.into(), passed }.whole()
    }

    fn message(rest: &str) -> String {
        let call = if rest.contains("hello") { "" } else { "cuInit" };
        format!("{{\"call\":\"{call}\",\"number\":1,\"t_ns\":1,\"tid\":1,\"pthread\":1,\"parked\":true,{rest}}}\n")
    }

    fn is_taken(rest: &str) -> bool {
        received(&message(rest), None).is_some()
    }

    #[test]
    fn a_message_that_no_library_sends_is_dropped() {
        assert!(is_taken("\"event\":\"error\",\"status\":1"));
        assert!(is_taken("\"kind\":\"hello\",\"devices\":64,\"lanes\":32,\"names\":[\"cuInit\"]"));
        for wrong in [
            "\"kind\":\"hello\",\"devices\":4611686018427387904,\"lanes\":32,\"names\":[\"cuInit\"]",
            "\"kind\":\"hello\",\"devices\":64,\"lanes\":4611686018427387904,\"names\":[\"cuInit\"]",
            "\"kind\":\"hello\",\"devices\":64,\"lanes\":32,\"names\":[]",
            "\"kind\":\"hello\",\"devices\":64,\"lanes\":32,\"names\":[\"a\\u001b[31m\"]",
            "\"event\":\"error\",\"device\":2000000000",
            "\"event\":\"error\",\"uuid\":\"/etc/passwd\"",
            "\"event\":\"variable\",\"name\":\"PATH\",\"before\":null,\"value\":\"x\"",
            "\"event\":\"variable\",\"name\":\"CUDA_\\u001b[31m\",\"before\":null,\"value\":\"x\"",
            "\"event\":\"init_done\",\"visible\":4000000000,\"gpus\":[]",
        ] {
            assert!(!is_taken(wrong), "{wrong}");
        }
        assert!(received("{}\n", None).is_none());
    }

    #[test]
    fn a_descriptor_is_taken_only_if_its_length_cannot_change_and_is_right() {
        let hello = message("\"kind\":\"hello\",\"devices\":2,\"lanes\":2,\"names\":[\"cuInit\"]");
        let taken = |fd: OwnedFd| received(&hello, Some(fd)).expect("a message").counts.is_some();
        let memory = |bytes: u64, seals: SealFlags| {
            let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
            rustix::fs::ftruncate(&fd, bytes).unwrap();
            rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
            fd
        };
        let (right, both) = (counted_bytes(2, 2, 1), SealFlags::SHRINK | SealFlags::GROW);
        assert!(taken(memory(right, both)));
        assert!(!taken(memory(right, SealFlags::GROW)));
        assert!(!taken(memory(right - 8, both)));
        assert!(!taken(memory(1 << 40, both)));
        for path in ["/dev/zero", "/etc/passwd", "/"] {
            assert!(!taken(File::open(path).unwrap().into()), "{path}");
        }
    }

    #[test]
    fn a_message_that_does_not_come_is_waited_for_until_its_deadline() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut room = [0; 64];
        let incoming = Incoming::new(ours, 1, 0);
        std::io::Write::write_all(&mut &theirs, b" ").unwrap();
        let Arrival::More(incoming) = incoming.read(&mut room, PATIENCE_NS - 1) else { panic!("it is dropped") };
        std::io::Write::write_all(&mut &theirs, b" ").unwrap();
        assert!(matches!(incoming.read(&mut room, PATIENCE_NS), Arrival::Dropped));
    }

    #[test]
    fn a_message_without_end_is_dropped() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut room = [0; 4096];
        let mut incoming = Incoming::new(ours, 1, 0);
        let mut sent = 0;
        loop {
            std::io::Write::write_all(&mut &theirs, &[b' '; 4096]).unwrap();
            sent += 4096;
            match incoming.read(&mut room, 0) {
                Arrival::More(more) => incoming = more,
                Arrival::Dropped => break,
                Arrival::Whole(_) => panic!("it is taken"),
            }
            assert!(sent <= LONGEST, "{sent} bytes were taken");
        }
    }
}
