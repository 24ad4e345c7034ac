//! The child side: a fresh process that makes the listed calls and no others.
//!
//! The worker is this binary, started with a hidden subcommand. It resolves every library and symbol before step 1,
//! reports the result, and then executes one step at a time on the parent's command. It sends `begin` before and `end`
//! after each call, so that after a hang or a crash the last line identifies the call. The modules below are the only
//! users of cudarc, and of `unsafe` calls into CUDA.

mod action;
mod call;
pub mod filter;
mod leaving;
mod library;
mod probe;
mod state;
mod symbols;
pub mod versions;

pub(crate) use call::{call_raw, uuid_text};
pub(crate) use library::find_symbol;

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use cuda_pitfalls_calls::{self as calls, CallLibrary};
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::event::{Command, Event, PROTOCOL};
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::refusal;
use state::{Leaving, Worker, lock};
use symbols::Symbols;

/// Runs the worker on an inherited channel until the parent sends the end.
///
/// # Safety
/// `fd` must be the worker's end of a channel, inherited and without another owner.
pub unsafe fn run(fd: RawFd) -> ! {
    // SAFETY: the caller guarantees the descriptor.
    let mut channel = unsafe { Channel::from_inherited(fd) };
    let Ok(Command::Prepare {
        calls,
        channels,
        probes,
        process,
        filtered,
    }) = channel.receive()
    else {
        std::process::exit(70);
    };
    report_panics(fd);
    // Processes that steps start get only their own descriptor.
    leaving::close_at_exec(channels.values().map(|set_aside| set_aside.fd).chain([fd]));
    let mut lacks = None;
    if calls.iter().any(|call| call == refusal::STEP) {
        lacks = filter::missing();
    }
    if filtered && lacks.is_none() {
        let set_aside: Vec<RawFd> = channels.values().map(|set_aside| set_aside.fd).collect();
        lacks = filter::install_filter(&channel, &set_aside)
            .err()
            .map(|error| format!("seccomp: error {error}"));
    }
    let (symbols, mut missing) = Symbols::look_up(&calls, probes);
    missing.extend(lacks);
    missing.extend(action::lacks_mps(&calls));
    let mapped = crate::mapped::mapped_libraries();
    if let Some(path) = mapped.unknown.first() {
        let message = format!("{path} is mapped, but it is unknown whether it is simulated");
        let _ = channel.send(&Event::Broken { message });
        std::process::exit(70);
    }
    let ready = Event::Ready {
        protocol: PROTOCOL,
        pid: std::process::id(),
        libraries: mapped.known,
        missing,
        injected: crate::mapped::injected_libraries(),
    };
    if channel.send(&ready).is_err() {
        std::process::exit(70);
    }
    let worker = Arc::new(Worker {
        channels: Mutex::new(channels),
        probes,
        symbols,
        handles: Mutex::default(),
        bytes: Mutex::default(),
        copies: Mutex::default(),
        threads: Mutex::default(),
        leaving: Mutex::default(),
    });
    worker.serve_commands(&mut channel, process.as_deref());
    let _ = channel.send(&Event::BYE);
    // The normal way out: destructors and exit handlers of the libraries run, as in any program.
    std::process::exit(0)
}

/// Reports a panic on the channel: it is a fault of the harness, and no result.
fn report_panics(fd: RawFd) {
    std::panic::set_hook(Box::new(move |info| {
        // SAFETY: the descriptor stays open for the life of the process; forgetting the channel
        // below keeps this borrowed use from closing it.
        let channel = unsafe { Channel::from_inherited(fd) };
        let _ = channel.send(&Event::Broken {
            message: info.to_string(),
        });
        std::mem::forget(channel);
    }));
}

impl Worker {
    /// Executes the parent's commands until `Finish` or the end of the channel. `process` is the name of this
    /// process, or `None` for the first one.
    fn serve_commands(self: &Arc<Self>, channel: &mut Channel, process: Option<&str>) {
        loop {
            let command = channel.receive::<Command>();
            // A process that has to leave does so on the next command, whatever it is: until then the parent reads
            // memory.
            let leaves = lock(&self.leaving).take_if(|leaving| matches!(leaving, Leaving::Exit(_)));
            if let (Some(leaving), Ok(command)) = (leaves, &command) {
                leaving.leave_process(self, channel, Some(command.clone()));
            }
            match command {
                Ok(Command::Run { step, call, bytes }) => {
                    self.store_bytes(bytes);
                    self.dispatch_step(channel, process, step, &call);
                    let becomes =
                        lock(&self.leaving).take_if(|leaving| matches!(leaving, Leaving::Exec));
                    if let Some(leaving) = becomes {
                        leaving.leave_process(self, channel, None);
                    }
                }
                Ok(Command::Finish) => return,
                Ok(Command::Prepare { .. }) => {
                    let _ = channel.send(&Event::Broken {
                        message: "prepared twice".to_string(),
                    });
                }
                // The parent is gone.
                Err(_) => std::process::exit(70),
            }
        }
    }

    /// Makes a step on its thread, and waits for it.
    fn dispatch_step(
        self: &Arc<Self>,
        channel: &Channel,
        process: Option<&str>,
        index: usize,
        step: &Step,
    ) {
        let on = step.on.as_deref();
        if on.is_none() || on == process {
            self.make_step(channel, index, step);
            return;
        }
        // The table must be unlocked meanwhile: the step may be a fork, and the child must find every lock free.
        let thread = on.and_then(|name| {
            lock(&self.threads)
                .get(name)
                .map(|at| (at.jobs.clone(), at.done.clone()))
        });
        let made = thread.is_some_and(|(jobs, done)| {
            jobs.send((index, step.clone())).is_ok() && lock(&done).recv().is_ok()
        });
        if !made {
            let message = format!("step {index} is for {on:?}, which does not run in this process");
            let _ = channel.send(&Event::Broken { message });
        }
    }

    /// Executes a step on the calling thread and reports it to the parent.
    fn make_step(self: &Arc<Self>, channel: &Channel, index: usize, step: &Step) {
        let Some(call) = calls::find(&step.call) else {
            let _ = channel.send(&Event::Broken {
                message: format!("unknown step {}", step.call),
            });
            return;
        };
        let _ = channel.send(&Event::Begin {
            step: index,
            t_ns: clock::now_ns(),
        });
        let outcome = if call.library == CallLibrary::Harness {
            action::make_harness_step(self, channel, call, step)
        } else {
            call::make_call(self, call, step)
        };
        let _ = channel.send(&Event::End {
            step: index,
            t_ns: clock::now_ns(),
            elapsed_ns: outcome.elapsed_ns,
            status: outcome.status,
            values: outcome.values,
            bytes: outcome.bytes,
            calls: None,
            processes: Vec::new(),
            varying: Vec::new(),
        });
        if self.probes {
            let started = clock::now_ns();
            let probe = probe::look(&self.symbols);
            let _ = channel.send(&Event::Probe {
                step: index,
                elapsed_ns: clock::now_ns() - started,
                probe,
            });
        }
    }
}
