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

    fn ask(&mut self, command: SamplerCommand) -> Result<SamplerEvent, SupervisorError> {
        let Some(channel) = &mut self.channel else {
            return Err(self.lost("it is not running", 1));
        };
        let answer = channel.send(&command).and_then(|()| receive_within(channel, ANSWER_MS));
        answer.map_err(|error| {
            let hung = matches!(&error, ChannelError::Io(error) if error.kind() == std::io::ErrorKind::TimedOut);
            self.lost(&error.to_string(), if hung { COST_OF_A_HANG } else { 1 })
        })
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
        if let Some(child) = self.child.take() {
            let pid = child.pid.as_raw_nonzero().get();
            if !end::finish(child, 200) {
                self.unkillable = Some(pid);
            }
        }
    }
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
