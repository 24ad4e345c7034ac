//! The messages of the libraries in a traced program: one JSON object per connection (src/fake/shim/post.rs).
//!
//! A program may send anything. The tracer drops a message that is too long, too late or invalid, and a descriptor that
//! is not memory of a fixed length.

use std::ffi::CString;
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use serde::Deserialize;

use super::ledger::page::{self, PAGE_BYTES};
use crate::{EventKind, MemoryKind};
use cuda_pitfalls_fake::COUNTED;
use cuda_pitfalls_fake::counts::{DEVICES, LANES};

/// Maximum length of a message, in bytes. A stack has a few kilobytes. A socket does not accept more than this at once.
const LONGEST: usize = 256 << 10;
/// The time that a sender waits for an answer. It sends its message completely and at once.
pub(super) const PATIENCE_NS: u64 = 2_000_000_000;
/// The longest time for opening a file. The wait for the stack is not much longer.
const OPENING: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};
/// The words of one lane: counts of calls and errors of each function, and three types of use of each device.
pub(super) const LANE_WORDS: usize = 2 * COUNTED.len() + 3 * DEVICES;
/// The size of the memory with the counts of a process (src/fake/shim/counts.rs).
const COUNTS_BYTES: usize = LANES * LANE_WORDS * size_of::<u64>();
/// The longest name of a function, message type or variable.
const LONGEST_NAME: usize = 128;
/// The maximum number of frames in a message (src/fake/shim/c.rs).
const MOST_FRAMES: usize = 128;

#[derive(Debug, Deserialize)]
pub(super) struct ShimMessage {
    pub(super) call: String,
    /// The number that links the messages before and after one call.
    pub(super) number: u64,
    pub(super) t_ns: u64,
    /// The thread's ID in the program's own PID namespace.
    pub(super) tid: u32,
    /// The thread's ID in the C library.
    pub(super) pthread: u64,
    /// Return addresses, innermost first; absent if no stack is needed.
    #[serde(default)]
    pub(super) frames: Vec<u64>,
    pub(super) device: Option<i32>,
    /// The GPU's UUID in hex; empty if the driver did not report it.
    pub(super) uuid: Option<String>,
    pub(super) status: Option<i64>,
    pub(super) elapsed_ns: Option<u64>,
    /// The thread that had selected a context, as `tid`.
    pub(super) selected_by: Option<u32>,
    #[serde(flatten)]
    pub(super) content: Content,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    /// An event as in the document, except that UUIDs are in hex.
    Event(EventKind),
    /// Any other message.
    Notice(Notice),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Notice {
    /// A process begins to count, in memory whose descriptor comes with the message.
    Hello,
    /// A call is about to be made, and memory must be read before it.
    Before,
    /// The call of an earlier `before` message has returned. Its stack is needed only if it allocated memory.
    After,
    /// A process begins to record the owners of its memory, on a page whose descriptor comes with the message.
    Ledger,
    /// A caller holds memory for the first time; this is its row of the page.
    Holder { row: u32, memory: MemoryKind },
    /// The process holds more memory of this GPU than ever before, and is about to free some of it.
    Peak,
    /// The process is about to end.
    Leaving,
    /// A process has written too many variables to report any more of them.
    Silent,
    /// The simulated driver lacks a file or function that the process looked for.
    Absent { name: String },
    /// The process continued with another function, which exists.
    Found,
    /// A program is about to open an optional library that would call the driver.
    Opening { name: String },
    /// The library of an earlier message with this number was found.
    Opened,
}

/// A message and its sender, as the kernel identifies it. Dropping the connection lets the thread continue.
pub(super) struct Delivery {
    pub(super) message: ShimMessage,
    /// The PID of the process in our namespace.
    pub(super) pid: u32,
    /// The memory with its counts, or the page of its memory, if a descriptor with the stated size came with the
    /// message.
    pub(super) shared: Option<File>,
    /// The connection of the waiting thread.
    pub(super) waiting: UnixStream,
}

/// Returns `true` if the thread that sent a message still waits for its answer.
pub(super) fn is_parked(waiting: &UnixStream) -> bool {
    let mut fds = [PollFd::new(waiting, PollFlags::RDHUP)];
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .is_ok()
        && fds.iter().all(|fd| !fd.revents().intersects(gone))
}

/// Returns a file that the waiting thread opens by name; `None` if the thread does not open it, because it may not.
pub(super) fn file_of(waiting: &UnixStream, name: &str) -> Option<File> {
    let name = CString::new(name).ok()?;
    let sent = send(
        waiting,
        name.as_bytes_with_nul(),
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )
    .ok()?;
    let mut fds = [PollFd::new(waiting, PollFlags::IN)];
    if sent != name.as_bytes_with_nul().len() || poll(&mut fds, Some(&OPENING)).ok()? == 0 {
        return None;
    }
    receive_bytes(waiting, &mut [0]).ok()?.1.map(File::from)
}

/// Reads the available bytes without waiting. Returns their number, and the descriptor that came with them.
fn receive_bytes(
    connection: &UnixStream,
    room: &mut [u8],
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut beside = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = RecvAncillaryBuffer::new(&mut beside);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(connection, &mut [IoSliceMut::new(room)], &mut beside, flags)?.bytes;
    let passed = beside.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(fds) => fds.last(),
        _ => None,
    });
    Ok((got, passed.last()))
}

/// A connection whose message is incomplete.
pub(super) struct Incoming {
    pub(super) connection: UnixStream,
    pid: u32,
    deadline_ns: u64,
    bytes: Vec<u8>,
    passed: Option<OwnedFd>,
}

/// The state of a connection after reading.
pub(super) enum Arrival {
    /// The message is complete.
    Whole(Box<Delivery>),
    /// The message is incomplete.
    More(Incoming),
    /// The bytes could not be read, or are not a message.
    Lost,
    /// The connection was closed, and nothing was sent.
    Empty,
}

impl Incoming {
    /// Returns a connection of a process that may send messages.
    pub(super) fn new(connection: UnixStream, pid: u32, now_ns: u64) -> Incoming {
        let deadline_ns = now_ns.saturating_add(PATIENCE_NS);
        Incoming {
            connection,
            pid,
            deadline_ns,
            bytes: Vec::new(),
            passed: None,
        }
    }

    /// Reads the available bytes, without waiting, into the buffer `room`.
    pub(super) fn read(mut self, room: &mut [u8], now_ns: u64) -> Arrival {
        loop {
            let (got, passed) = match receive_bytes(&self.connection, room) {
                Ok(got) => got,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if now_ns < self.deadline_ns => return Arrival::More(self),
                Err(_) => return Arrival::Lost,
            };
            self.passed = passed.or(self.passed);
            self.bytes
                .extend_from_slice(room.get(..got).unwrap_or_default());
            match got {
                0 if self.bytes.is_empty() => return Arrival::Empty,
                _ if got == 0 || self.bytes.len() > LONGEST => return Arrival::Lost,
                _ => {}
            }
            if self.bytes.last() == Some(&b'\n') {
                return self
                    .whole()
                    .map_or(Arrival::Lost, |received| Arrival::Whole(Box::new(received)));
            }
        }
    }

    fn whole(self) -> Option<Delivery> {
        let message = ShimMessage::parse(&self.bytes)?;
        let bytes = match &message.content {
            Content::Notice(Notice::Hello) => Some(COUNTS_BYTES),
            Content::Notice(Notice::Ledger) => Some(PAGE_BYTES),
            _ => None,
        };
        let shared = self
            .passed
            .filter(|fd| bytes.is_some_and(|bytes| is_sealed(fd, bytes as u64)))
            .map(File::from);
        Some(Delivery {
            message,
            pid: self.pid,
            shared,
            waiting: self.connection,
        })
    }
}

/// Returns `true` if a descriptor belongs to memory of this length that is sealed against changes.
fn is_sealed(fd: &OwnedFd, bytes: u64) -> bool {
    let seals = rustix::fs::fcntl_get_seals(fd);
    let is_fixed = seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK | SealFlags::GROW));
    is_fixed && rustix::fs::fstat(fd).is_ok_and(|data| u64::try_from(data.st_size) == Ok(bytes))
}

impl ShimMessage {
    /// Parses a message; `None` if the libraries do not send such a message.
    pub(super) fn parse(bytes: &[u8]) -> Option<ShimMessage> {
        serde_json::from_slice(bytes)
            .ok()
            .filter(ShimMessage::is_valid)
    }

    /// Returns `true` if the libraries could have sent this message.
    fn is_valid(&self) -> bool {
        let is_right = match &self.content {
            Content::Event(EventKind::Init { variables, .. }) => {
                variables.keys().all(|name| is_variable(name))
            }
            Content::Event(EventKind::Variable { name, .. }) => is_variable(name),
            Content::Event(EventKind::InitDone { visible, gpus }) => {
                visible.is_none_or(|visible| visible as usize <= DEVICES)
                    && gpus.len() <= DEVICES
                    && gpus.iter().all(|gpu| is_uuid(gpu))
            }
            Content::Notice(Notice::Absent { name } | Notice::Opening { name }) => {
                name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_graphic())
            }
            Content::Event(EventKind::Forked { contexts, .. }) => *contexts as usize <= DEVICES,
            Content::Notice(Notice::Holder { row, memory }) => {
                (*row as usize) < page::TOLD_ROWS
                    && matches!(
                        memory,
                        MemoryKind::Allocation
                            | MemoryKind::Pool
                            | MemoryKind::Physical
                            | MemoryKind::Managed
                            | MemoryKind::Imported
                    )
            }
            Content::Event(_) | Content::Notice(_) => true,
        };
        // These messages are about the process, which may have made no call.
        let is_own = matches!(
            self.content,
            Content::Notice(Notice::Hello | Notice::Ledger | Notice::Peak | Notice::Leaving)
        );
        is_right
            && (is_word(&self.call) || (is_own && self.call.is_empty()))
            && self.frames.len() <= MOST_FRAMES
            // The driver's number for an unknown device is -1.
            && self.device.is_none_or(|device| (-1..DEVICES as i32).contains(&device))
            && self.uuid.as_deref().is_none_or(is_uuid)
    }
}

fn is_word(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns `true` if a text is the name of a variable that the libraries report.
fn is_variable(text: &str) -> bool {
    text.len() <= LONGEST_NAME
        && cuda_pitfalls_fake::is_of_cuda(text.as_bytes())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns `true` if a text is a UUID in hex, or empty.
fn is_uuid(text: &str) -> bool {
    text.is_empty() || (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::scenario::environment;

    /// Returns the message in a text that arrived in one piece.
    fn received(text: &str, passed: Option<OwnedFd>) -> Option<Delivery> {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        Incoming {
            connection: ours,
            pid: 1,
            deadline_ns: 0,
            bytes: text.into(),
            passed,
        }
        .whole()
    }

    fn message(rest: &str) -> String {
        let call = if rest.contains("hello") { "" } else { "cuInit" };
        format!("{{\"call\":\"{call}\",\"number\":1,\"t_ns\":1,\"tid\":1,\"pthread\":1,{rest}}}\n")
    }

    fn is_taken(rest: &str) -> bool {
        received(&message(rest), None).is_some()
    }

    #[test]
    fn a_message_that_no_library_sends_is_dropped() {
        assert!(is_taken("\"event\":\"error\",\"status\":1"));
        assert!(is_taken("\"kind\":\"hello\""));
        for taken in [
            "\"kind\":\"ledger\"",
            "\"kind\":\"holder\",\"row\":4031,\"memory\":\"allocation\",\"device\":0",
            "\"kind\":\"after\",\"frames\":[1]",
            "\"kind\":\"peak\",\"device\":63",
            "\"kind\":\"leaving\"",
        ] {
            assert!(is_taken(taken), "{taken}");
        }
        for wrong in [
            // The last rows combine many callers, so they have no single one.
            "\"kind\":\"holder\",\"row\":4032,\"memory\":\"allocation\"",
            "\"kind\":\"holder\",\"row\":-1,\"memory\":\"allocation\"",
            "\"kind\":\"holder\",\"row\":18446744073709551615,\"memory\":\"allocation\"",
            // A kind of memory that no call allocates.
            "\"kind\":\"holder\",\"row\":1,\"memory\":\"rounding\"",
            "\"kind\":\"holder\",\"row\":1,\"memory\":\"\\u001b[31m\"",
            "\"kind\":\"peak\",\"device\":64",
            "\"kind\":\"peaks\"",
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
    fn each_variable_that_cuda_or_a_framework_reads_is_watched() {
        let others = [
            "container runtimes",
            "programs of a scheduler's job",
            "the processes of a launcher",
        ];
        for (name, reader) in environment::variable_readers() {
            let is_ours = name == environment::INJECTION || name.starts_with("CUDA_PITFALLS_");
            assert!(
                is_ours || others.contains(&reader) || is_variable(name),
                "{name}"
            );
        }
    }

    #[test]
    fn a_descriptor_is_taken_only_if_its_length_cannot_change_and_is_right() {
        let hello = message("\"kind\":\"hello\"");
        let taken = |fd: OwnedFd| {
            received(&hello, Some(fd))
                .expect("a message")
                .shared
                .is_some()
        };
        let memory = |bytes: u64, seals: SealFlags| {
            let fd =
                rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
            rustix::fs::ftruncate(&fd, bytes).unwrap();
            rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
            fd
        };
        let (right, both) = (COUNTS_BYTES as u64, SealFlags::SHRINK | SealFlags::GROW);
        assert!(taken(memory(right, both)));
        assert!(!taken(memory(right, SealFlags::GROW)));
        assert!(!taken(memory(right - 8, both)));
        assert!(!taken(memory(1 << 40, both)));
        for path in ["/dev/zero", "/etc/passwd", "/"] {
            assert!(!taken(File::open(path).unwrap().into()), "{path}");
        }
        let ledger = message("\"kind\":\"ledger\"");
        for (bytes, is_taken) in [(PAGE_BYTES, true), (PAGE_BYTES + 8, false), (0, false)] {
            let received = received(&ledger, Some(memory(bytes as u64, both))).expect("a message");
            assert_eq!(received.shared.is_some(), is_taken, "{bytes}");
        }
        let peak = received(
            &message("\"kind\":\"peak\""),
            Some(memory(PAGE_BYTES as u64, both)),
        );
        assert!(
            peak.expect("a message").shared.is_none(),
            "no descriptor belongs to it"
        );
    }

    #[test]
    fn a_message_that_does_not_come_is_waited_for_until_its_deadline() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut room = [0; 64];
        let incoming = Incoming::new(ours, 1, 0);
        std::io::Write::write_all(&mut &theirs, b" ").unwrap();
        let Arrival::More(incoming) = incoming.read(&mut room, PATIENCE_NS - 1) else {
            panic!("it is dropped")
        };
        std::io::Write::write_all(&mut &theirs, b" ").unwrap();
        assert!(matches!(
            incoming.read(&mut room, PATIENCE_NS),
            Arrival::Lost
        ));
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
                Arrival::Lost | Arrival::Empty => break,
                Arrival::Whole(_) => panic!("it is taken"),
            }
            assert!(sent <= LONGEST, "{sent} bytes were taken");
        }
    }
}
