//! Receiving messages on a separate thread, for two reasons: a sender that stops waiting and ends can no longer be
//! identified, and reading a stack or memory takes time.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use rustix::event::{PollFd, PollFlags, poll};

use super::message::{Arrival, Delivery, Incoming};
use super::peers::{Peer, Peers};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_instrument::supervisor::to_timespec;

/// The maximum number of messages in the queue. Further ones wait in their connections.
const MOST_WAITING: usize = 1024;
/// The maximum number of connections with an incomplete message.
const MOST_INCOMING: usize = 256;
/// The maximum number of connections that are accepted before the existing ones are read.
const MOST_AT_ONCE: usize = 64;
/// The longest wait of the thread before it checks everything again.
const TICK_NS: u64 = 100_000_000;
/// The longest time that the thread continues after the request to stop, if messages keep arriving.
const LAST_NS: u64 = 500_000_000;

/// The maximum number of descriptors of the gate.
pub(super) const FILES: u64 = (MOST_WAITING + MOST_INCOMING + MOST_AT_ONCE) as u64;

/// Counts of rejected connections, and of those whose messages were lost.
#[derive(Default)]
struct Refusals {
    strangers: AtomicU64,
    gone: AtomicU64,
    unread: AtomicU64,
}

/// The tracer's end of the gate.
pub(super) struct Gate {
    messages: Receiver<Box<Delivery>>,
    /// Readable when a message has arrived; closed when the thread has to stop.
    bell: UnixStream,
    refused: Arc<Refusals>,
}

impl Gate {
    /// Starts the thread.
    pub(super) fn open(listener: UnixListener) -> std::io::Result<Gate> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let (queue, messages) = sync_channel(MOST_WAITING);
        let refused = Arc::new(Refusals::default());
        let (incoming, room, peers) = (VecDeque::new(), vec![0; 64 << 10], Peers::new());
        let keeper = Keeper {
            listener,
            rope,
            queue,
            peers,
            refused: refused.clone(),
            incoming,
            room,
        };
        // The thread is not joined at the program's end.
        let started = std::thread::Builder::new()
            .name("gate".into())
            .spawn(move || keeper.keep_receiving());
        started
            .map_err(|error| std::io::Error::other(format!("no thread can be started: {error}")))?;
        Ok(Gate {
            messages,
            bell,
            refused,
        })
    }

    /// Returns the next message; `None` if no message has arrived.
    pub(super) fn next(&self) -> Option<Box<Delivery>> {
        self.messages.try_recv().ok()
    }

    /// Accepts no more connections. [`Gate::rest`] returns the messages that have arrived.
    pub(super) fn stop_accepting(&self) {
        let _ = self.bell.shutdown(Shutdown::Write);
    }

    /// Returns the next message after [`Gate::stop_accepting`].
    ///
    /// # Errors
    /// Returns an error if no message is left, or none arrived before the deadline.
    pub(super) fn rest(&self, deadline_ns: u64) -> Result<Box<Delivery>, IsLast> {
        let left = deadline_ns.saturating_sub(clock::now_ns());
        if left == 0 {
            return Err(IsLast(false));
        }
        match self
            .messages
            .recv_timeout(std::time::Duration::from_nanos(left))
        {
            Ok(message) => Ok(message),
            Err(_) => Err(IsLast(matches!(
                self.messages.try_recv(),
                Err(TryRecvError::Disconnected)
            ))),
        }
    }

    pub(super) fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Clears the signal that a message has arrived.
    pub(super) fn clear_bell(&self) {
        let mut rings = [0; 1024];
        while (&self.bell)
            .read(&mut rings)
            .is_ok_and(|read| read == rings.len())
        {}
    }

    /// Returns the number of connections that did not come from processes of the program.
    pub(super) fn stranger_count(&self) -> u64 {
        self.refused.strangers.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that may have come from processes of the program that had ended.
    pub(super) fn ended_count(&self) -> u64 {
        self.refused.gone.load(Ordering::Relaxed)
    }

    /// Returns the number of messages from the program's processes that could not be read.
    pub(super) fn unread_count(&self) -> u64 {
        self.refused.unread.load(Ordering::Relaxed)
    }
}

/// The absence of a message: `true` if no more will come, `false` if none arrived in time.
#[derive(Debug)]
pub(super) struct IsLast(pub(super) bool);

struct Keeper {
    listener: UnixListener,
    rope: UnixStream,
    queue: SyncSender<Box<Delivery>>,
    peers: Peers,
    refused: Arc<Refusals>,
    /// Connections with incomplete messages, oldest first.
    incoming: VecDeque<Incoming>,
    room: Vec<u8>,
}

impl Keeper {
    fn keep_receiving(mut self) {
        let mut last_ns = None;
        loop {
            if last_ns.is_none() && self.wait_for_arrival() {
                last_ns = Some(clock::now_ns() + LAST_NS);
            }
            let is_drained = self.accept_connections();
            if self.read().is_none() {
                return;
            }
            if last_ns.is_some_and(|last| is_drained || clock::now_ns() > last) {
                return;
            }
        }
    }

    /// Waits until something has arrived. Returns `true` if the tracer accepts no more connections.
    fn wait_for_arrival(&self) -> bool {
        let listener = self.listener.as_fd();
        let mut fds = vec![PollFd::new(&self.rope, PollFlags::RDHUP)];
        fds.push(PollFd::from_borrowed_fd(listener, PollFlags::IN));
        fds.extend(
            self.incoming
                .iter()
                .map(|incoming| PollFd::new(&incoming.connection, PollFlags::IN)),
        );
        let ready = poll(&mut fds, Some(&to_timespec(TICK_NS))).is_ok();
        ready
            && fds
                .first()
                .is_some_and(|rope| rope.revents().intersects(PollFlags::RDHUP | PollFlags::HUP))
    }

    /// Accepts connections and identifies their processes. A rejected connection is closed, which ends the wait of its
    /// sender. Returns `true` if no more connections are waiting.
    fn accept_connections(&mut self) -> bool {
        for _ in 0..MOST_AT_ONCE {
            // The oldest connection has had the most time. Only the program itself can open this many.
            if self.incoming.len() >= MOST_INCOMING && self.incoming.pop_front().is_some() {
                self.refused.unread.fetch_add(1, Ordering::Relaxed);
            }
            let Ok((connection, _)) = self.listener.accept() else {
                return true;
            };
            let refused = match self.peers.identify_peer(&connection) {
                Peer::Ours(pid) => {
                    self.incoming
                        .push_back(Incoming::new(connection, pid, clock::now_ns()));
                    continue;
                }
                Peer::Gone => &self.refused.gone,
                Peer::Stranger => &self.refused.strangers,
            };
            refused.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    /// Reads what has arrived. `None` if the tracer has stopped taking messages.
    fn read(&mut self) -> Option<()> {
        for incoming in std::mem::take(&mut self.incoming) {
            match incoming.read(&mut self.room, clock::now_ns()) {
                Arrival::Whole(received) => {
                    self.queue.send(received).ok()?;
                    let _ = (&self.rope).write(&[0]);
                }
                Arrival::More(incoming) => self.incoming.push_back(incoming),
                Arrival::Lost => {
                    self.refused.unread.fetch_add(1, Ordering::Relaxed);
                }
                Arrival::Empty => {}
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_read_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let (_bell, rope) = UnixStream::pair().unwrap();
        let (queue, _messages) = sync_channel(1);
        let refused = Arc::new(Refusals::default());
        let sent: [&[u8]; 4] = [b"", b"{\"call\":\"cuInit\"", b"not a message\n", b""];
        let (ours, theirs): (Vec<_>, Vec<_>) =
            sent.iter().map(|_| UnixStream::pair().unwrap()).unzip();
        for (mut end, text) in theirs.iter().zip(sent) {
            end.write_all(text).unwrap();
        }
        // The last connection sends nothing and is not closed: its time is over.
        for end in &theirs[..3] {
            end.shutdown(Shutdown::Both).unwrap();
        }
        let incoming = ours
            .into_iter()
            .map(|connection| Incoming::new(connection, 1, 0))
            .collect();
        let room = vec![0; 1024];
        let mut keeper = Keeper {
            listener,
            rope,
            queue,
            peers: Peers::new(),
            refused: refused.clone(),
            incoming,
            room,
        };
        keeper.read().unwrap();
        assert_eq!(
            refused.unread.load(Ordering::Relaxed),
            3,
            "all but the one that said nothing"
        );
    }
}
