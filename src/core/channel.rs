//! A socket that carries one JSON document per line, between one reader and one writer.

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock;

/// Maximum time that the parent waits for the other side to take a document.
const SEND_NS: u64 = 5_000_000_000;

/// A longer line, in bytes, is an invalid message.
const LONGEST_LINE: usize = 4 << 20;

/// An end of a socket pair.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    pending: Vec<u8>,
    /// The last descriptor that was sent with a document but not yet taken.
    sent_along: Option<OwnedFd>,
    closed: bool,
}

/// An error on a channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side has closed its end.
    #[error("the other side closed the channel")]
    Closed,
    /// The system failed to send or receive.
    #[error("the channel failed: {0}")]
    Io(#[from] io::Error),
    /// The other side sent an invalid message.
    #[error("unreadable line on the channel: {0}")]
    Nonsense(String),
}

fn too_long() -> ChannelError {
    ChannelError::Nonsense(format!("a line of more than {LONGEST_LINE} bytes"))
}

impl Channel {
    /// Returns both ends of a new channel. The first is the parent's: it is non-blocking, so that a process that does
    /// not read cannot block the parent.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a socket.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((Channel::new(ours), Channel::new(theirs)))
    }

    fn new(stream: UnixStream) -> Channel {
        Channel {
            stream,
            pending: Vec::new(),
            sent_along: None,
            closed: false,
        }
    }

    /// Returns the end that a parent left at an inherited descriptor.
    ///
    /// # Safety
    /// The descriptor must be open and be one end of a channel, and nothing else may own it.
    pub unsafe fn from_inherited(fd: RawFd) -> Channel {
        // SAFETY: the caller vouches for the descriptor.
        Channel::new(UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends one document. At the parent's end this takes at most 5 s.
    ///
    /// # Errors
    /// Returns an error if the document is too long, and has then sent nothing. Also if the other side is gone or did
    /// not read, or if a system call fails: then the channel cannot be used any more, because a part may have been sent.
    pub fn send<T: Serialize>(&self, document: &T) -> Result<(), ChannelError> {
        let mut line = serde_json::to_vec(document)
            .map_err(|error| ChannelError::Nonsense(error.to_string()))?;
        line.push(b'\n');
        if line.len() > LONGEST_LINE {
            return Err(too_long());
        }
        let mut rest = line.as_slice();
        let deadline = clock::running_ns() + SEND_NS;
        while !rest.is_empty() {
            match (&self.stream).write(rest) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        return Err(ChannelError::Closed);
                    }
                    io::ErrorKind::WouldBlock if clock::running_ns() < deadline => {
                        self.rest(PollFlags::OUT)?
                    }
                    _ => return Err(ChannelError::Io(error)),
                },
            }
        }
        Ok(())
    }

    /// Waits until the socket is ready, at most [`clock::SLICE_NS`].
    fn rest(&self, flags: PollFlags) -> io::Result<()> {
        let slice = Timespec {
            tv_sec: 0,
            tv_nsec: clock::SLICE_NS as _,
        };
        match poll(&mut [PollFd::new(&self.stream, flags)], Some(&slice)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for one document.
    ///
    /// # Errors
    /// Returns an error if the other side is gone or sent an invalid message, or if a system call fails.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        loop {
            if let Some(document) = self.take()? {
                return Ok(document);
            }
            self.read_available()?;
            if !self.pending.contains(&b'\n') {
                self.rest(PollFlags::IN)?;
            }
        }
    }

    /// Returns the next document, or `None` if none has arrived completely.
    ///
    /// # Errors
    /// Returns an error if the line is not a document of this type.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ChannelError> {
        let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        serde_json::from_slice(&line).map(Some).map_err(|error| {
            let start = String::from_utf8_lossy(line.get(..line.len().min(120)).unwrap_or(&line))
                .into_owned();
            ChannelError::Nonsense(format!("{error}: {start:?}"))
        })
    }

    /// Reads the bytes that have arrived. At the parent's end this does not wait; at the other end it waits for at
    /// least one byte.
    ///
    /// # Errors
    /// Returns an error if the other side is gone, or if a system call fails.
    pub fn read_available(&mut self) -> Result<(), ChannelError> {
        if self.closed {
            return Err(ChannelError::Closed);
        }
        let mut buffer = [0; 16384];
        let read = loop {
            match self.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => break other?,
            }
        };
        if read == 0 {
            self.closed = true;
            return Err(ChannelError::Closed);
        }
        self.pending
            .extend_from_slice(buffer.get(..read).unwrap_or_default());
        if self.pending.len() > LONGEST_LINE {
            return Err(too_long());
        }
        Ok(())
    }

    /// Reads bytes, and keeps a descriptor that was sent along. All but the last are closed: no process of ours sends
    /// several, and others must not use up the descriptors of the reader.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut along = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = recvmsg(
            &self.stream,
            &mut [io::IoSliceMut::new(buffer)],
            &mut along,
            flags,
        )?;
        for message in along.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.sent_along = descriptors.last().or(self.sent_along.take());
            }
        }
        Ok(read.bytes)
    }

    /// Returns the last descriptor that was sent with a document.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.sent_along.take()
    }

    /// Closes the sending direction: the other side reads the end of the channel. Messages from the other side can
    /// still be read here.
    pub fn hang_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns `true` if the other side is known to be gone.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Channel {
    /// Returns a second handle on the same end, for a thread that only sends.
    ///
    /// # Errors
    /// Returns an error if the system has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Channel> {
        Ok(Channel::new(self.stream.try_clone()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_that_is_too_long_is_not_sent() {
        let (ours, mut theirs) = Channel::pair().unwrap();
        let sent = ours.send(&"x".repeat(LONGEST_LINE));
        assert!(matches!(sent, Err(ChannelError::Nonsense(_))));
        ours.send(&1).unwrap();
        assert_eq!(theirs.receive::<u32>().unwrap(), 1);
    }
}
