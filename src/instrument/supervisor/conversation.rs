//! Messages between the parent and the processes of one worker. Other events are polled at the same time.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};

use super::end::to_timespec;
use super::error::SupervisorError;
use super::spawn::Child;
use super::watch::Watch;
use crate::interrupt::Interrupt;
use cuda_pitfalls_core::channel::{Channel, ChannelError};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::event::{Command, Event};
use cuda_pitfalls_core::recording::ProcessEvent;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Libraries and symbols are resolved.
    Ready,
    /// A step has ended, and the state was probed after it if the case has probes.
    Step { step: usize, probe: bool },
    /// The worker's first process has ended.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The expected event arrived.
    Done,
    /// The process that had to answer is gone.
    Gone,
    /// The deadline passed.
    Deadline,
    /// The user wants to stop.
    Interrupted,
    /// An invalid message was received.
    ProtocolError(String),
    /// A channel, or waiting itself, failed.
    Failed(String),
}

/// A worker and its channels.
pub(super) struct Conversation {
    pub(super) child: Child,
    /// The channel of the first process, under an empty name, and those of the other processes.
    pub(super) channels: BTreeMap<String, Channel>,
    pub(super) events: Vec<ProcessEvent>,
    pub(super) ended: bool,
    /// The thread that answers the filters of the processes, if a step denies something.
    pub(super) watch: Option<Watch>,
    /// A failure in the parent. Waiting then ends, because the answer may never come.
    failed: Option<String>,
}

impl Conversation {
    /// Returns a conversation with a process that was just started.
    pub(super) fn new(child: Child, channels: BTreeMap<String, Channel>) -> Conversation {
        Conversation {
            child,
            channels,
            events: Vec::new(),
            ended: false,
            watch: None,
            failed: None,
        }
    }

    /// Sends a command to a process. If the process is gone, waiting will notice it. If sending fails although the
    /// process exists, its channel is closed, which makes it exit.
    pub(super) fn send_command(&mut self, process: &str, command: &Command) {
        let Some(channel) = self.channels.get(process) else {
            return;
        };
        match channel.send(command) {
            Ok(()) => {}
            Err(ChannelError::Closed) => channel.hang_up(),
            Err(error) => {
                self.failed
                    .get_or_insert(format!("a message to a process could not be sent: {error}"));
            }
        }
    }

    /// Waits, and stores every event that arrives. The deadline is by [`clock::running_ns`].
    pub(super) fn wait_for(
        &mut self,
        process: &str,
        want: Awaited,
        deadline_ns: u64,
        interrupt: &mut Interrupt,
    ) -> Waited {
        let from = self.events.len();
        let mut is_late = false;
        loop {
            if let Err(error) = self.take() {
                return Waited::ProtocolError(error.to_string());
            }
            if self.is_satisfied(process, want, from) {
                return Waited::Done;
            }
            let closed = self.channels.get(process).is_none_or(Channel::is_closed);
            if self.ended || (closed && want != Awaited::End) {
                return Waited::Gone;
            }
            if let Some(why) = self.failed.take() {
                return Waited::Failed(why);
            }
            if is_late {
                return Waited::Deadline;
            }
            // Events from before the deadline count, so the channels are read once more after it.
            let left = deadline_ns.saturating_sub(clock::running_ns());
            is_late = left == 0;
            if !self.poll_channels(left.min(clock::SLICE_NS), interrupt) {
                return Waited::Interrupted;
            }
        }
    }

    fn is_satisfied(&self, process: &str, want: Awaited, from: usize) -> bool {
        let said = self.events.iter().skip(from);
        let mut own = said
            .filter(|event| event.process.as_deref().unwrap_or("") == process)
            .map(|event| &event.event);
        match want {
            Awaited::Ready => own.any(|event| matches!(event, Event::Ready { .. })),
            Awaited::Step { step, probe: true } => {
                own.any(|event| matches!(event, Event::Probe { step: s, .. } if *s == step))
            }
            Awaited::Step { step, probe: false } => {
                own.any(|event| matches!(event, Event::End { step: s, .. } if *s == step))
            }
            Awaited::End => self.ended,
        }
    }

    /// Takes every event that has arrived in full.
    fn take(&mut self) -> Result<(), SupervisorError> {
        for (name, channel) in &mut self.channels {
            loop {
                match channel.take::<Event>() {
                    Ok(Some(Event::Broken { message })) => {
                        return Err(SupervisorError::Protocol(message));
                    }
                    Ok(Some(Event::Filtered)) => {
                        match (self.watch.as_mut(), channel.take_descriptor()) {
                            (Some(watch), Some(listener)) => watch.answer(listener)?,
                            _ => {
                                return Err(SupervisorError::Protocol(
                                    "a filter that no step requested".to_string(),
                                ));
                            }
                        }
                    }
                    Ok(Some(event)) => {
                        let process = (!name.is_empty()).then(|| name.clone());
                        self.events.push(ProcessEvent { process, event });
                    }
                    Ok(None) | Err(ChannelError::Closed) => break,
                    Err(error) => return Err(SupervisorError::Protocol(error.to_string())),
                }
            }
        }
        Ok(())
    }

    /// Waits until anything happens. False if the user wants to stop.
    fn poll_channels(&mut self, left_ns: u64, interrupt: &mut Interrupt) -> bool {
        let open: Vec<String> = self
            .channels
            .iter()
            .filter(|(_, channel)| !channel.is_closed())
            .map(|(name, _)| name.clone())
            .collect();
        let ready = {
            let mut fds: Vec<BorrowedFd> = vec![self.child.pidfd.as_fd()];
            fds.extend(
                open.iter()
                    .filter_map(|name| self.channels.get(name))
                    .map(AsFd::as_fd),
            );
            fds.extend(
                [&self.child.stdout, &self.child.stderr]
                    .into_iter()
                    .flatten()
                    .filter_map(|tail| tail.fd()),
            );
            fds.extend(interrupt.signal_pipes());
            let mut fds: Vec<PollFd> = fds
                .into_iter()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            if let Err(error) = poll(&mut fds, Some(&to_timespec(left_ns)))
                && error != rustix::io::Errno::INTR
            {
                self.failed.get_or_insert(format!("poll: {error}"));
            }
            fds.iter()
                .map(|fd| !fd.revents().is_empty())
                .collect::<Vec<bool>>()
        };
        for (place, name) in open.iter().enumerate() {
            if ready.get(place + 1).copied().unwrap_or(false)
                && let Some(channel) = self.channels.get_mut(name)
            {
                // A closed channel keeps its state; events that were sent before are still taken.
                match channel.read_available() {
                    Ok(()) | Err(ChannelError::Closed) => {}
                    Err(error) => drop(self.failed.get_or_insert(error.to_string())),
                }
            }
        }
        for tail in [&mut self.child.stdout, &mut self.child.stderr]
            .into_iter()
            .flatten()
        {
            tail.read_arrived();
        }
        // The worker's end counts once its channel was read to the end.
        let read_out = self.channels.get("").is_none_or(Channel::is_closed);
        self.ended = ready.first().copied().unwrap_or(false)
            && (read_out || !ready.get(1).copied().unwrap_or(false));
        !interrupt.check()
    }
}
