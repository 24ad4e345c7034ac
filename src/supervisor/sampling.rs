//! The parent's side of the sampler: asking with a deadline, and starting it again if it is lost.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;

use super::end::{self, timespec};
use super::spawn::{self, Child, Spawn};
use super::{Trouble, environment, role};
use crate::channel::{Channel, ChannelError};
use crate::clock;
use crate::sample::{Command, Event, FreeRun, Inventory, REST_US, Sweep};

/// NVML calls block while another process is in `cuInit`, which takes seconds on 8 GPUs; longer
/// than this is a hang.
const ANSWER_MS: u64 = 20_000;
/// A lost sampler is started again this often in a run.
const MOST_RESTARTS: u32 = 2;

/// The sampler, seen from the parent.
pub struct SamplerClient {
    program: PathBuf,
    links: PathBuf,
    home: PathBuf,
    child: Option<Child>,
    channel: Option<Channel>,
    restarts: u32,
    /// How long it rests between looks when it reads on its own.
    pub rest_us: u64,
    /// What the machine has, or why NVML cannot be asked (a closed word, and its own words).
    pub inventory: Result<Inventory, (String, String)>,
}

impl SamplerClient {
    pub(super) fn start(program: &Path, links: &Path, home: &Path) -> Result<SamplerClient, Trouble> {
        let mut client = SamplerClient {
            program: program.to_path_buf(),
            links: links.to_path_buf(),
            home: home.to_path_buf(),
            child: None,
            channel: None,
            restarts: 0,
            rest_us: REST_US,
            inventory: Err(("nvml_error".to_string(), "the sampler was not started".to_string())),
        };
        client.launch()?;
        Ok(client)
    }

    fn launch(&mut self) -> Result<(), Trouble> {
        let (mut channel, theirs) = Channel::pair().map_err(Trouble::system)?;
        let mut arguments = vec![OsString::from(role::SAMPLER), spawn::descriptor(&theirs)];
        let library = self.links.join("libnvidia-ml.so.1");
        arguments.extend(library.exists().then(|| library.into_os_string()));
        let child = spawn::start(Spawn {
            program: &self.program,
            arguments,
            environment: environment(Some(&self.links), &self.home, &Default::default()),
            inherit: vec![theirs],
            capture: false,
        })?;
        let first: Result<Event, _> = receive_within(&mut channel, 3 * ANSWER_MS);
        self.child = Some(child);
        match first {
            Ok(Event::Ready(inventory)) => {
                self.inventory = Ok(*inventory);
                self.channel = Some(channel);
            }
            Ok(Event::Unavailable { reason, detail }) => {
                self.inventory = Err((reason, detail));
                self.stop();
            }
            Ok(_) | Err(_) => {
                self.stop();
                return Err(Trouble::Sampler("it did not say that it was ready".to_string()));
            }
        }
        Ok(())
    }

    /// Reads every GPU once.
    pub fn sweep(&mut self) -> Result<Sweep, Trouble> {
        match self.ask(Command::Sweep)? {
            Event::Sweep(sweep) => Ok(sweep),
            _ => Err(self.lost("it answered something else")),
        }
    }

    /// Lets it read on its own.
    pub fn free_run(&mut self) -> Result<(), Trouble> {
        let command = Command::FreeRun { rest_us: self.rest_us };
        let sent = self.channel.as_ref().map(|channel| channel.send(&command));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.lost("it could not be spoken to")),
        }
    }

    /// Stops it from reading on its own, and hands over what it saw.
    pub fn stop_free_run(&mut self) -> Result<FreeRun, Trouble> {
        match self.ask(Command::Stop)? {
            Event::FreeRun(run) => Ok(run),
            _ => Err(self.lost("it answered something else")),
        }
    }

    fn ask(&mut self, command: Command) -> Result<Event, Trouble> {
        let Some(channel) = &mut self.channel else {
            return Err(self.lost("it is not running"));
        };
        let answer = channel.send(&command).and_then(|()| receive_within(channel, ANSWER_MS));
        answer.map_err(|error| self.lost(&error.to_string()))
    }

    /// Gives up on a sampler and starts another, if that may help.
    fn lost(&mut self, why: &str) -> Trouble {
        self.stop();
        self.restarts += 1;
        if self.restarts <= MOST_RESTARTS {
            let _ = self.launch();
        }
        Trouble::Sampler(why.to_string())
    }

    /// Its PID, which is no stranger among our children.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|child| child.pid.as_raw_nonzero().get())
    }

    fn stop(&mut self) {
        self.channel = None;
        if let Some(child) = self.child.take() {
            end::finish(child, 200);
        }
    }
}

impl Drop for SamplerClient {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for one document, but not for ever.
pub(super) fn receive_within<T: DeserializeOwned>(channel: &mut Channel, milliseconds: u64) -> Result<T, ChannelError> {
    let deadline = clock::now_ns() + milliseconds * 1_000_000;
    loop {
        if let Some(document) = channel.take()? {
            return Ok(document);
        }
        let left = deadline.saturating_sub(clock::now_ns());
        let mut fds = [PollFd::new(channel, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(0) => {
                let late =
                    std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer within {milliseconds} ms"));
                return Err(ChannelError::Io(late));
            }
            Ok(_) => channel.fill()?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ChannelError::Io(error.into())),
        }
    }
}
