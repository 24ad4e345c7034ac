//! The parent's side of the sampler: asking with a deadline, and starting it again if it is lost.

use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;

use super::end::{self, timespec};
use super::spawn::{self, Child, Spawn};
use super::{STARTS, SupervisorError, environment, is_overdue, role};
use crate::channel::{Channel, ChannelError};
use crate::clock;
use crate::sample::{FreeRun, Inventory, REST_US, SamplerCommand, SamplerEvent, Sweep};

/// NVML calls block while another process is in `cuInit`, which takes seconds on 8 GPUs; longer
/// than this is a hang.
const ANSWER_MS: u64 = 20_000;
/// So does `nvmlInit`, which also may load the driver.
const START_MS: u64 = 30_000;
/// A lost sampler is started again until this is spent; one that hung costs more, because each such
/// loss is waited for.
const MOST_LOSSES: u32 = 20;
const COST_OF_A_HANG: u32 = 8;

/// The sampler, seen from the parent.
pub struct SamplerClient {
    program: PathBuf,
    links: PathBuf,
    home: PathBuf,
    child: Option<Child>,
    channel: Option<Channel>,
    losses: u32,
    /// Since when a question is unanswered that nobody waits for any more, by [`clock::running_ns`].
    unanswered_ns: Option<u64>,
    /// What it saw on its own, handed over too late.
    late: Option<FreeRun>,
    /// One that could not be ended, if there is one.
    pub(super) unkillable: Option<i32>,
    /// How long it rests between looks when it reads on its own.
    pub rest_us: u64,
    /// What the machine has, or why NVML cannot be asked (a closed word, and its own words).
    pub inventory: Result<Inventory, (String, String)>,
}

impl SamplerClient {
    /// Starts one. Where none can be had, the inventory says why.
    pub(crate) fn start(program: &Path, links: &Path, home: &Path) -> SamplerClient {
        let mut client = SamplerClient {
            program: program.to_path_buf(),
            links: links.to_path_buf(),
            home: home.to_path_buf(),
            child: None,
            channel: None,
            losses: 0,
            unanswered_ns: None,
            late: None,
            unkillable: None,
            rest_us: REST_US,
            inventory: Err(("nvml_error".to_string(), "the sampler was not started".to_string())),
        };
        for _ in 0..STARTS {
            let Err(trouble) = client.launch() else { break };
            client.inventory = Err(("nvml_error".to_string(), trouble.to_string()));
            if client.unkillable.is_some() || is_overdue() {
                break;
            }
        }
        client
    }

    fn launch(&mut self) -> Result<(), SupervisorError> {
        let (mut channel, theirs) = Channel::pair().map_err(SupervisorError::system)?;
        let mut arguments = vec![spawn::descriptor(&theirs)];
        let library = self.links.join("libnvidia-ml.so.1");
        arguments.extend(library.exists().then(|| library.into_os_string()));
        let child = spawn::start(Spawn {
            program: &self.program,
            role: role::SAMPLER,
            arguments,
            environment: environment(Some(&self.links), &self.home, &Default::default()),
            inherit: vec![theirs],
            capture: false,
        })?;
        let first: Result<SamplerEvent, _> = receive_within(&mut channel, START_MS);
        self.child = Some(child);
        match first {
            Ok(SamplerEvent::Ready(inventory)) => {
                self.inventory = Ok(*inventory);
                self.channel = Some(channel);
            }
            Ok(SamplerEvent::Unavailable { reason, detail }) => {
                self.inventory = Err((reason, detail));
                self.stop();
            }
            other => {
                drop(channel);
                self.stop();
                let why = other.err().map_or_else(|| "it said something else".to_string(), |error| error.to_string());
                return Err(SupervisorError::Sampler(format!("it did not report that it was ready: {why}")));
            }
        }
        Ok(())
    }

    /// Reads every GPU once.
    ///
    /// # Errors
    /// The sampler was lost; another has been started if that may help.
    pub fn sweep(&mut self) -> Result<Sweep, SupervisorError> {
        match self.ask(SamplerCommand::Sweep)? {
            SamplerEvent::Sweep(sweep) => Ok(sweep),
            _ => Err(self.lost("it answered something else", 1)),
        }
    }

    /// Lets it read on its own.
    ///
    /// # Errors
    /// As for [`SamplerClient::sweep`].
    pub fn free_run(&mut self) -> Result<(), SupervisorError> {
        let command = SamplerCommand::FreeRun { rest_us: self.rest_us };
        let sent = self.channel.as_ref().map(|channel| channel.send(&command));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.lost("a message to it could not be sent", 1)),
        }
    }

    /// Stops it from reading on its own, and hands over what it saw.
    ///
    /// # Errors
    /// As for [`SamplerClient::sweep`].
    pub fn stop_free_run(&mut self) -> Result<FreeRun, SupervisorError> {
        match self.ask(SamplerCommand::Stop)? {
            SamplerEvent::FreeRun(run) => Ok(run),
            _ => Err(self.lost("it answered something else", 1)),
        }
    }

    /// As [`SamplerClient::sweep`], for a caller who cannot wait so long: none if there is no answer within so many
    /// milliseconds. Until the answer has come there is none at once.
    ///
    /// # Errors
    /// As for [`SamplerClient::sweep`].
    pub fn sweep_within(&mut self, milliseconds: u64) -> Result<Option<Sweep>, SupervisorError> {
        match self.ask_within(SamplerCommand::Sweep, milliseconds)? {
            Some(SamplerEvent::Sweep(sweep)) => Ok(Some(sweep)),
            None => Ok(None),
            _ => Err(self.lost("it answered something else", 1)),
        }
    }

    /// As [`SamplerClient::stop_free_run`], within so many milliseconds. What is handed over later comes with the next
    /// question.
    ///
    /// # Errors
    /// As for [`SamplerClient::sweep`].
    pub fn stop_free_run_within(&mut self, milliseconds: u64) -> Result<Option<FreeRun>, SupervisorError> {
        let is_free = self.is_free(milliseconds)?;
        if let Some(late) = self.late.take() {
            return Ok(Some(late));
        }
        if !is_free {
            return Ok(None);
        }
        match self.ask_within(SamplerCommand::Stop, milliseconds)? {
            Some(SamplerEvent::FreeRun(run)) => Ok(Some(run)),
            None => Ok(None),
            _ => Err(self.lost("it answered something else", 1)),
        }
    }

    /// Whether it has answered every question. One that has not for as long as a hang takes is started again.
    fn is_free(&mut self, milliseconds: u64) -> Result<bool, SupervisorError> {
        let Some(since_ns) = self.unanswered_ns else { return Ok(true) };
        let Some(channel) = &mut self.channel else { return Err(self.lost("it is not running", 1)) };
        // The first wait was the caller's whole patience.
        match receive_within(channel, milliseconds.min(1)) {
            Ok(SamplerEvent::FreeRun(run)) => self.late = Some(run),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {
                let waited_ns = clock::running_ns().saturating_sub(since_ns);
                let is_hung = waited_ns > ANSWER_MS * 1_000_000;
                return if is_hung { Err(self.lost(&error.to_string(), COST_OF_A_HANG)) } else { Ok(false) };
            }
            Err(error) => return Err(self.lost(&error.to_string(), 1)),
        }
        self.unanswered_ns = None;
        Ok(true)
    }

    fn ask_within(
        &mut self,
        command: SamplerCommand,
        milliseconds: u64,
    ) -> Result<Option<SamplerEvent>, SupervisorError> {
        if !self.is_free(milliseconds)? {
            return Ok(None);
        }
        let Some(channel) = &mut self.channel else { return Err(self.lost("it is not running", 1)) };
        match channel.send(&command).and_then(|()| receive_within(channel, milliseconds)) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_timeout(&error) => {
                self.unanswered_ns = Some(clock::running_ns());
                Ok(None)
            }
            Err(error) => Err(self.lost(&error.to_string(), 1)),
        }
    }

    fn ask(&mut self, command: SamplerCommand) -> Result<SamplerEvent, SupervisorError> {
        let Some(channel) = &mut self.channel else {
            return Err(self.lost("it is not running", 1));
        };
        let answer = channel.send(&command).and_then(|()| receive_within(channel, ANSWER_MS));
        answer.map_err(|error| self.lost(&error.to_string(), if is_timeout(&error) { COST_OF_A_HANG } else { 1 }))
    }

    /// Gives up on a sampler and starts another, if that may help.
    fn lost(&mut self, why: &str, cost: u32) -> SupervisorError {
        self.stop();
        self.losses += cost;
        if self.losses <= MOST_LOSSES && self.unkillable.is_none() && !is_overdue() {
            let _ = self.launch();
        }
        SupervisorError::Sampler(why.to_string())
    }

    /// Its PID, which is no stranger among our children.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|child| child.pid.as_raw_nonzero().get())
    }

    fn stop(&mut self) {
        self.channel = None;
        (self.unanswered_ns, self.late) = (None, None);
        if let Some(child) = self.child.take() {
            let pid = child.pid.as_raw_nonzero().get();
            if !end::finish(child, 200) {
                self.unkillable = Some(pid);
            }
        }
    }
}

fn is_timeout(error: &ChannelError) -> bool {
    matches!(error, ChannelError::Io(error) if error.kind() == std::io::ErrorKind::TimedOut)
}

impl Drop for SamplerClient {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for one document, but not for ever, and not for long once the user wants to stop.
pub(super) fn receive_within<T: DeserializeOwned>(channel: &mut Channel, milliseconds: u64) -> Result<T, ChannelError> {
    let deadline = clock::running_ns() + milliseconds * 1_000_000;
    let mut is_late = false;
    loop {
        if let Some(document) = channel.take()? {
            return Ok(document);
        }
        if is_late {
            let why =
                if is_overdue() { "interrupted".to_string() } else { format!("no answer within {milliseconds} ms") };
            return Err(ChannelError::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, why)));
        }
        // What came before the deadline counts, so one more look is taken after it.
        let left = deadline.saturating_sub(clock::running_ns());
        is_late = left == 0 || is_overdue();
        let mut fds = [PollFd::new(channel, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(left.min(clock::SLICE_NS)))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => channel.fill()?,
            Err(error) => return Err(ChannelError::Io(error.into())),
        }
    }
}
