//! A socket that carries one JSON document per line, for one reader and one writer.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A line longer than this is nonsense: no event or command is.
const LONGEST_LINE: usize = 4 << 20;

/// One end of a socket pair.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    pending: Vec<u8>,
    closed: bool,
}

/// What went wrong on a channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side is gone.
    #[error("the other side closed the channel")]
    Closed,
    /// The system refused.
    #[error("the channel failed: {0}")]
    Io(#[from] io::Error),
    /// The other side spoke nonsense.
    #[error("unreadable line on the channel: {0}")]
    Nonsense(String),
}

impl Channel {
    /// Both ends of a new channel.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Channel::new(one), Channel::new(other)))
    }

    fn new(stream: UnixStream) -> Channel {
        Channel { stream, pending: Vec::new(), closed: false }
    }

    /// The end that a parent left at an inherited descriptor.
    ///
    /// # Safety
    /// The descriptor must be open, be one end of a channel, and belong to nobody else.
    pub unsafe fn inherited(fd: RawFd) -> Channel {
        // SAFETY: the caller vouches for the descriptor.
        Channel::new(UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends one document.
    pub fn send<T: Serialize>(&self, document: &T) -> Result<(), ChannelError> {
        let mut line = serde_json::to_vec(document).map_err(|error| ChannelError::Nonsense(error.to_string()))?;
        line.push(b'\n');
        (&self.stream).write_all(&line).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ChannelError::Closed,
            _ => ChannelError::Io(error),
        })
    }

    /// Waits for one document.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        loop {
            if let Some(document) = self.take()? {
                return Ok(document);
            }
            self.fill()?;
        }
    }

    /// One document that has already arrived in full, if there is one.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ChannelError> {
        let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        serde_json::from_slice(&line).map(Some).map_err(|error| {
            let start = String::from_utf8_lossy(line.get(..line.len().min(120)).unwrap_or(&line)).into_owned();
            ChannelError::Nonsense(format!("{error}: {start:?}"))
        })
    }

    /// Reads what is there, waiting for at least a byte.
    pub fn fill(&mut self) -> Result<(), ChannelError> {
        if self.closed {
            return Err(ChannelError::Closed);
        }
        let mut buffer = [0; 16384];
        let read = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break 0,
                other => break other?,
            }
        };
        if read == 0 {
            self.closed = true;
            return Err(ChannelError::Closed);
        }
        self.pending.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if self.pending.len() > LONGEST_LINE {
            return Err(ChannelError::Nonsense(format!("a line of more than {LONGEST_LINE} bytes")));
        }
        Ok(())
    }

    /// Whether the other side is known to be gone.
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
    /// A second handle on the same end, for a thread that only sends.
    pub fn borrow(&self) -> io::Result<Channel> {
        Ok(Channel::new(self.stream.try_clone()?))
    }
}
