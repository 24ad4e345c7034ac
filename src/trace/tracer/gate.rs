//! Where messages come in: on a thread of its own, because who gives up waiting and ends cannot be recognised any more,
//! while reading a stack or memory takes its time.

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
use cuda_pitfalls_instrument::supervisor::timespec;

/// So many messages wait to be taken. The others wait in their connections.
const MOST_WAITING: usize = 1024;
/// So many connections may have sent less than a message.
const MOST_INCOMING: usize = 256;
/// So many connections are accepted before those that are there are read.
const MOST_AT_ONCE: usize = 64;
/// How long the thread waits at most before it looks around.
const TICK_NS: u64 = 100_000_000;
/// How long it goes on when it is to stop and there is always one more.
const LAST_NS: u64 = 500_000_000;

/// Descriptors that this takes at most.
pub(super) const FILES: u64 = (MOST_WAITING + MOST_INCOMING + MOST_AT_ONCE) as u64;

/// Who was turned away.
#[derive(Default)]
struct Refusals {
    strangers: AtomicU64,
    gone: AtomicU64,
}

/// The gate.
pub(super) struct Gate {
    messages: Receiver<Box<Delivery>>,
    /// Can be read when a message has come; shut when the thread is to stop.
    bell: UnixStream,
    refused: Arc<Refusals>,
}

impl Gate {
    /// Opens it.
    ///
    /// # Errors
    /// What the system refused.
    pub(super) fn open(listener: UnixListener) -> std::io::Result<Gate> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let (queue, messages) = sync_channel(MOST_WAITING);
        let refused = Arc::new(Refusals::default());
        let (incoming, room, peers) = (VecDeque::new(), vec![0; 64 << 10], Peers::new());
        let keeper = Keeper { listener, rope, queue, peers, refused: refused.clone(), incoming, room };
        // The program ends without waiting for it.
        std::thread::Builder::new().name("gate".into()).spawn(move || keeper.keep())?;
        Ok(Gate { messages, bell, refused })
    }

    /// The next message that has come; none if there is none.
    pub(super) fn next(&self) -> Option<Box<Delivery>> {
        self.messages.try_recv().ok()
    }

    /// Has no more let in than what has come. [`Gate::rest`] hands it over.
    pub(super) fn close(&self) {
        let _ = self.bell.shutdown(Shutdown::Write);
    }

    /// The next message after [`Gate::close`]; none if there will be none, or none has come by a deadline.
    pub(super) fn rest(&self, deadline_ns: u64) -> Result<Box<Delivery>, IsLast> {
        let left = deadline_ns.saturating_sub(clock::now_ns());
        if left == 0 {
            return Err(IsLast(false));
        }
        match self.messages.recv_timeout(std::time::Duration::from_nanos(left)) {
            Ok(message) => Ok(message),
            Err(_) => Err(IsLast(matches!(self.messages.try_recv(), Err(TryRecvError::Disconnected)))),
        }
    }

    /// What to poll.
    pub(super) fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes note of the bell.
    pub(super) fn heard(&self) {
        let mut rings = [0; 1024];
        while (&self.bell).read(&mut rings).is_ok_and(|read| read == rings.len()) {}
    }

    /// How many connections were not of processes of the program.
    pub(super) fn strangers(&self) -> u64 {
        self.refused.strangers.load(Ordering::Relaxed)
    }

    /// How many may have been of processes of the program that had ended.
    pub(super) fn gone(&self) -> u64 {
        self.refused.gone.load(Ordering::Relaxed)
    }
}

/// Whether there is no message any more, or only none in time.
#[derive(Debug)]
pub(super) struct IsLast(pub(super) bool);

/// The thread's side.
struct Keeper {
    listener: UnixListener,
    rope: UnixStream,
    queue: SyncSender<Box<Delivery>>,
    peers: Peers,
    refused: Arc<Refusals>,
    /// Connections whose message has not come as a whole, in the order of their coming.
    incoming: VecDeque<Incoming>,
    /// Where messages are read to.
    room: Vec<u8>,
}

impl Keeper {
    fn keep(mut self) {
        let mut last_ns = None;
        loop {
            if last_ns.is_none() && self.wait() {
                last_ns = Some(clock::now_ns() + LAST_NS);
            }
            let is_drained = self.accept();
            if self.read().is_none() {
                return;
            }
            if last_ns.is_some_and(|last| is_drained || clock::now_ns() > last) {
                return;
            }
        }
    }

    /// Waits until something has come. True if no more is to be let in.
    fn wait(&self) -> bool {
        let listener = self.listener.as_fd();
        let mut fds = vec![PollFd::new(&self.rope, PollFlags::RDHUP)];
        fds.push(PollFd::from_borrowed_fd(listener, PollFlags::IN));
        fds.extend(self.incoming.iter().map(|it| PollFd::new(&it.connection, PollFlags::IN)));
        let ready = poll(&mut fds, Some(&timespec(TICK_NS))).is_ok();
        ready && fds.first().is_some_and(|rope| rope.revents().intersects(PollFlags::RDHUP | PollFlags::HUP))
    }

    /// Accepts connections and looks at who is there. What is dropped is closed, which ends its wait. True if there are no
    /// more.
    fn accept(&mut self) -> bool {
        for _ in 0..MOST_AT_ONCE {
            // The oldest has had the longest time; what comes over it is the program's own fault.
            if self.incoming.len() >= MOST_INCOMING {
                self.incoming.pop_front();
            }
            let Ok((connection, _)) = self.listener.accept() else { return true };
            let refused = match self.peers.of(&connection) {
                Peer::Ours(pid) => {
                    self.incoming.push_back(Incoming::new(connection, pid, clock::now_ns()));
                    continue;
                }
                Peer::Gone => &self.refused.gone,
                Peer::Stranger => &self.refused.strangers,
            };
            refused.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    /// Reads what has come. None if nobody takes messages any more.
    fn read(&mut self) -> Option<()> {
        for incoming in std::mem::take(&mut self.incoming) {
            match incoming.read(&mut self.room, clock::now_ns()) {
                Arrival::Whole(received) => {
                    self.queue.send(received).ok()?;
                    let _ = (&self.rope).write(&[0]);
                }
                Arrival::More(incoming) => self.incoming.push_back(incoming),
                Arrival::Dropped => {}
            }
        }
        Some(())
    }
}
