//! The process that reads NVML, and the only user of nvml-wrapper.
//!
//! It is a separate process because NVML can hang with the driver: then only the sampler hangs. It keeps one NVML
//! session open for the entire run and reads every physical GPU on demand. In between, it can read them continuously on
//! command.

mod gpus;
mod inventory;
mod once;

use std::ffi::OsString;
use std::os::fd::RawFd;

use nvml_wrapper::Nvml;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use cuda_pitfalls_core::channel::{Channel, ChannelError};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::sample::{
    MemoryChange, Polling, STALL_NS, STEP_BYTES, SamplerCommand, SamplerEvent, Stall,
};
use gpus::GpuHandles;
pub(crate) use once::start_once;

/// Maximum number of changes in one background polling. More are dropped, and the report records that.
const MOST_CHANGES: usize = 2000;
/// More stalls are dropped likewise.
const MOST_STALLS: usize = 200;

/// Runs the sampler on an inherited channel until the parent is gone.
///
/// # Safety
/// `fd` must be the sampler's end of a channel, inherited and without another owner.
pub unsafe fn run(fd: RawFd, library: Option<OsString>) -> ! {
    // SAFETY: the caller guarantees the descriptor.
    let mut channel = unsafe { Channel::from_inherited(fd) };
    let code = match serve_commands(&mut channel, library.as_deref()) {
        Ok(()) | Err(ChannelError::Closed) => 0,
        Err(_) => 70,
    };
    std::process::exit(code)
}

fn serve_commands(
    channel: &mut Channel,
    library: Option<&std::ffi::OsStr>,
) -> Result<(), ChannelError> {
    let started = clock::now_ns();
    let mut builder = Nvml::builder();
    if let Some(path) = library {
        builder.lib_path(path);
    }
    let nvml = match builder.init() {
        Ok(nvml) => nvml,
        Err(error) => return channel.send(&gpus::unavailable_event(&error)),
    };
    let init_ns = clock::now_ns() - started;
    let gpus = match GpuHandles::open(&nvml) {
        Ok(gpus) => gpus,
        Err(unavailable) => return channel.send(&unavailable),
    };
    let first = inventory::take(&nvml, &gpus, init_ns);
    channel.send(&first)?;
    if !matches!(first, SamplerEvent::Ready(_)) {
        return Ok(());
    }
    let mut free: Option<Running> = None;
    loop {
        while let Some(command) = channel.take()? {
            match command {
                SamplerCommand::Snapshot => {
                    let snapshot = gpus.snapshot();
                    if let Some(free) = &mut free {
                        free.add_snapshot(&snapshot);
                    }
                    channel.send(&SamplerEvent::Snapshot(snapshot))?;
                }
                SamplerCommand::Polling { rest_us } => {
                    free = Some(Running::start(gpus.len(), rest_us))
                }
                SamplerCommand::Stop => {
                    let run = free.take().map(Running::finish).unwrap_or_default();
                    channel.send(&SamplerEvent::Polling(run))?;
                }
            }
        }
        match &mut free {
            Some(free) => {
                if free.read_round(&gpus, channel) {
                    channel.read_available()?;
                }
            }
            None => channel.read_available()?,
        }
    }
}

/// Returns `true` if a message from the parent arrives within this many microseconds.
fn is_spoken_to(channel: &Channel, within_us: u64) -> bool {
    let mut fds = [PollFd::new(channel, PollFlags::IN)];
    let within = Timespec {
        tv_sec: (within_us / 1_000_000) as i64,
        tv_nsec: (within_us % 1_000_000 * 1_000) as _,
    };
    poll(&mut fds, Some(&within)).is_ok_and(|ready| ready > 0)
}

struct Running {
    run: Polling,
    rest_us: u64,
    last: Vec<Option<Last>>,
}

#[derive(Clone, Copy)]
struct Last {
    read_ns: u64,
    stored_bytes: u64,
}

impl Running {
    fn start(gpus: usize, rest_us: u64) -> Running {
        Running {
            run: Polling {
                t_ns: clock::now_ns(),
                ..Polling::default()
            },
            rest_us,
            last: vec![None; gpus],
        }
    }

    /// Reads every GPU once, until a message from the parent arrives. Returns `true` if one arrived.
    fn read_round(&mut self, gpus: &GpuHandles, channel: &Channel) -> bool {
        for gpu in 0..gpus.len() {
            if is_spoken_to(channel, 0) {
                return true;
            }
            let asked = clock::now_ns();
            let used = gpus.used_bytes(gpu);
            let answered = clock::now_ns();
            if answered - asked > STALL_NS && self.run.stalls.len() < MOST_STALLS {
                self.run.stalls.push(Stall {
                    t_ns: asked,
                    elapsed_ns: answered - asked,
                });
            }
            if let Some(used) = used {
                self.add_reading(gpu, answered, used);
            }
        }
        self.run.reads += 1;
        is_spoken_to(channel, self.rest_us)
    }

    fn add_snapshot(&mut self, snapshot: &cuda_pitfalls_core::sample::Snapshot) {
        for (gpu, reading) in snapshot.gpus.iter().enumerate() {
            if let Some(used) = reading.used_bytes {
                self.add_reading(gpu, snapshot.t_ns + snapshot.elapsed_ns, used);
            }
        }
    }

    fn add_reading(&mut self, gpu: usize, t_ns: u64, used_bytes: u64) {
        let Some(last) = self.last.get_mut(gpu) else {
            return;
        };
        if let Some(last) = last {
            self.run.longest_gap_ns = self
                .run
                .longest_gap_ns
                .max(t_ns.saturating_sub(last.read_ns));
            last.read_ns = t_ns;
            if last.stored_bytes.abs_diff(used_bytes) < STEP_BYTES {
                return;
            }
        }
        *last = Some(Last {
            read_ns: t_ns,
            stored_bytes: used_bytes,
        });
        if self.run.changes.len() < MOST_CHANGES {
            self.run.changes.push(MemoryChange {
                t_ns,
                gpu,
                used_bytes,
            });
        } else {
            self.run.truncated = true;
        }
    }

    fn finish(mut self) -> Polling {
        self.run.elapsed_ns = clock::now_ns() - self.run.t_ns;
        self.run
    }
}
