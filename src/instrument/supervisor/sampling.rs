//! The parent's side of the sampler: queries with a deadline, and restarting a sampler that was lost.

mod patience;

use std::path::{Path, PathBuf};

use super::end;
use super::environment::environment;
use super::error::SupervisorError;
use super::receive::{is_timeout, receive_within};
use super::role;
use super::spawn::{self, Child, STARTS, Spawn};
use crate::interrupt::is_overdue;
use cuda_pitfalls_core::channel::{Channel, ChannelError};
use cuda_pitfalls_core::machine::Unavailable;
use cuda_pitfalls_core::sample::{
    Inventory, Polling, REST_US, SamplerCommand, SamplerEvent, Snapshot,
};

/// The time for an answer, in milliseconds. NVML calls block while another process is in `cuInit`, which takes seconds
/// on 8 GPUs; a longer wait is a hang.
const ANSWER_MS: u64 = 20_000;
/// The time for the sampler's start: `nvmlInit` blocks in the same way, and may load the driver.
const START_MS: u64 = 30_000;
/// A lost sampler is restarted until its losses have cost this much. A sampler that hung costs more, because the parent
/// waits for it each time.
const MOST_LOSSES: u32 = 20;
const COST_OF_A_HANG: u32 = 8;

/// The parent's handle on the sampler.
pub struct SamplerClient {
    program: PathBuf,
    links: PathBuf,
    home: PathBuf,
    child: Option<Child>,
    channel: Option<Channel>,
    losses: u32,
    /// Start of an unanswered query whose caller has given up, by [`cuda_pitfalls_core::clock::running_ns`].
    unanswered_ns: Option<u64>,
    /// The result of background polling, if it arrived too late for its caller.
    late: Option<Polling>,
    /// The PID of a sampler that could not be ended.
    pub(super) unkillable: Option<i32>,
    /// Pause of the sampler between readings of background polling.
    pub rest_us: u64,
    /// The machine's GPUs, or why NVML cannot be used.
    pub inventory: Result<Inventory, Unavailable>,
}

impl SamplerClient {
    /// Starts a sampler. If that fails, the inventory has the reason.
    pub fn start(program: &Path, links: &Path, home: &Path) -> SamplerClient {
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
            inventory: Err(not_started("it was not tried")),
        };
        for _ in 0..STARTS {
            let why = match client.launch_process() {
                Ok(()) => break,
                Err(SupervisorError::Sampler(why)) => why,
                Err(error) => error.to_string(),
            };
            client.inventory = Err(not_started(&why));
            if client.unkillable.is_some() || is_overdue() {
                break;
            }
        }
        client
    }

    fn launch_process(&mut self) -> Result<(), SupervisorError> {
        let (mut channel, theirs) = Channel::pair().map_err(SupervisorError::from_system)?;
        let mut arguments = vec![spawn::descriptor_argument(&theirs)];
        let library = self.links.join("libnvidia-ml.so.1");
        arguments.extend(library.exists().then(|| library.into_os_string()));
        let environment = environment(Some(&self.links), &self.home, &Default::default());
        let own = Spawn::new(&self.program, role::SAMPLER, arguments, environment);
        let child = spawn::start(Spawn {
            inherit: vec![theirs],
            ..own
        })?;
        let first: Result<SamplerEvent, _> = receive_within(&mut channel, START_MS);
        self.child = Some(child);
        match first {
            Ok(SamplerEvent::Ready(inventory)) => {
                self.inventory = Ok(*inventory);
                self.channel = Some(channel);
            }
            Ok(SamplerEvent::Unavailable { reason, detail }) => {
                self.inventory = Err(Unavailable { reason, detail });
                self.stop_process();
            }
            other => {
                drop(channel);
                self.stop_process();
                let why = other.err().map_or_else(
                    || "it sent something else".to_string(),
                    |error| error.to_string(),
                );
                return Err(SupervisorError::Sampler(why));
            }
        }
        Ok(())
    }

    /// Reads every GPU once.
    ///
    /// # Errors
    /// Returns an error if the sampler was lost. A new one was started if that may help.
    pub fn snapshot(&mut self) -> Result<Snapshot, SupervisorError> {
        match self.ask(&SamplerCommand::Snapshot, ANSWER_MS) {
            Ok(SamplerEvent::Snapshot(snapshot)) => Ok(snapshot),
            other => Err(self.reject_answer(other)),
        }
    }

    /// Starts background polling.
    ///
    /// # Errors
    /// Returns the errors of [`SamplerClient::snapshot`].
    pub fn start_polling(&mut self) -> Result<(), SupervisorError> {
        let command = SamplerCommand::Polling {
            rest_us: self.rest_us,
        };
        let sent = self.channel.as_ref().map(|channel| channel.send(&command));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.replace_sampler("a message to it could not be sent", 1)),
        }
    }

    /// Stops background polling, and returns its readings.
    ///
    /// # Errors
    /// Returns the errors of [`SamplerClient::snapshot`].
    pub fn stop_polling(&mut self) -> Result<Polling, SupervisorError> {
        match self.ask(&SamplerCommand::Stop, ANSWER_MS) {
            Ok(SamplerEvent::Polling(run)) => Ok(run),
            other => Err(self.reject_answer(other)),
        }
    }

    fn ask(
        &mut self,
        command: &SamplerCommand,
        milliseconds: u64,
    ) -> Result<SamplerEvent, ChannelError> {
        let channel = self.channel.as_mut().ok_or(ChannelError::Closed)?;
        channel
            .send(command)
            .and_then(|()| receive_within(channel, milliseconds))
    }

    /// Gives up on a sampler that returned no answer, or the answer to a different query.
    fn reject_answer(&mut self, answer: Result<SamplerEvent, ChannelError>) -> SupervisorError {
        match answer {
            Ok(_) => self.replace_sampler("it sent something else", 1),
            Err(_) if self.channel.is_none() => self.replace_sampler("it is not running", 1),
            Err(error) => self.replace_sampler(
                &error.to_string(),
                if is_timeout(&error) {
                    COST_OF_A_HANG
                } else {
                    1
                },
            ),
        }
    }

    /// Gives up on the sampler and starts another one, if that may help.
    fn replace_sampler(&mut self, why: &str, cost: u32) -> SupervisorError {
        self.stop_process();
        self.losses += cost;
        if self.losses <= MOST_LOSSES && self.unkillable.is_none() && !is_overdue() {
            let _ = self.launch_process();
        }
        SupervisorError::Sampler(why.to_string())
    }

    /// Returns the sampler's PID, so that it is not taken for a process that an attempt left behind.
    pub fn pid(&self) -> Option<i32> {
        self.child
            .as_ref()
            .map(|child| child.pid.as_raw_nonzero().get())
    }

    fn stop_process(&mut self) {
        self.channel = None;
        (self.unanswered_ns, self.late) = (None, None);
        if let Some(mut child) = self.child.take() {
            let pid = child.pid.as_raw_nonzero().get();
            if !end::finish_child(&mut child, 200) {
                self.unkillable = Some(pid);
            }
        }
    }
}

/// Returns the reason why the sampler is missing.
fn not_started(why: &str) -> Unavailable {
    Unavailable {
        reason: "nvml_error".to_string(),
        detail: format!("the process that reads NVML did not start: {why}"),
    }
}

impl Drop for SamplerClient {
    fn drop(&mut self) {
        self.stop_process();
    }
}
