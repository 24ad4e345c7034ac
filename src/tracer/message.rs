//! What the libraries in a traced program send: one JSON object per connection (shim/src/post.rs).

use std::fs::File;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Deserialize;

use crate::trace::What;

/// Longer messages are not read: a stack has some kilobytes, the list of names twenty.
const LONGEST: u64 = 1 << 20;
/// A message is sent whole and at once.
const PATIENCE: Duration = Duration::from_millis(200);

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
    /// The token of this trace: whoever has it was put there by this tracer.
    pub(super) token: String,
    #[serde(flatten)]
    pub(super) said: Said,
}

/// What it says.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Said {
    /// An event, as the document has it, but for UUIDs in hex.
    Event(What),
    /// Anything else.
    Other(Other),
}

/// A message that is no event.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Other {
    /// A process counts from now on, in memory that comes with the message.
    Hello { devices: usize, names: Vec<String> },
    /// A call is about to be made whose effect on memory is wanted.
    Before,
    /// A process has written so many variables that it tells no more of them.
    Silent,
    /// A program is about to be started without the trace's variables.
    Lost { program: String },
}

/// A message with who sent it, by the kernel's word. Dropping the connection lets its thread go on.
pub(super) struct Received {
    pub(super) message: Message,
    /// The process in our PID namespace.
    pub(super) pid: u32,
    /// The memory of its counts, if it came with the message.
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

/// Reads the message of a connection; none if it is not one of ours.
pub(super) fn receive(connection: UnixStream, token: &str) -> Option<Received> {
    let pid = rustix::net::sockopt::socket_peercred(&connection).ok()?.pid.as_raw_nonzero().get() as u32;
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = RecvAncillaryBuffer::new(&mut room);
    let mut buffer = vec![0; 64 << 10];
    let got = recvmsg(&connection, &mut [IoSliceMut::new(&mut buffer)], &mut beside, RecvFlags::CMSG_CLOEXEC).ok()?;
    buffer.truncate(got.bytes);
    let mut passed: Vec<OwnedFd> = Vec::new();
    for part in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = part {
            passed.extend(fds);
        }
    }
    while buffer.last() != Some(&b'\n') {
        let mut more = [0; 16 << 10];
        let read = (&connection).take(LONGEST.saturating_sub(buffer.len() as u64)).read(&mut more).ok()?;
        buffer.extend_from_slice(more.get(..read).filter(|more| !more.is_empty())?);
    }
    let message: Message = serde_json::from_slice(&buffer).ok()?;
    let is_ours = message.token == token;
    is_ours.then(|| Received { message, pid, counts: passed.pop().map(File::from), waiting: connection })
}
