//! The first line of a trace: the machine, the program, and what this trace cannot see.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::watch::MemoryWatch;
use super::{REST_US, TraceOptions, Tracer};
use crate::{TraceLine, TraceStart};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::Provenance;

/// A file that gives the driver the path of another hook.
const OTHER_HOOK: &str = "/dev/shm/cuda_injection_path_shm";
const RETURNED: &str = "these calls were not forwarded and returned the requested status";
const NO_LIBCUDA: &str = "no libcuda was found (see `cuda-pitfalls doctor`); calls to one that the program finds elsewhere are not seen";

const NO_LEDGER: &str = "memory owners cannot be recorded without libcuda (--memory)";

impl Tracer {
    pub(super) fn write_first_line(&mut self, options: &TraceOptions) {
        let mut driver_version = None;
        // The loaded libraries decide, not the options: simulated results must never pass for measured ones.
        let mut is_simulated = self.machine.is_simulated;
        if let Ok(inventory) = &self.sampler.inventory {
            is_simulated |= inventory.simulated;
            self.gpus = inventory.gpus.clone();
            driver_version = inventory.driver_version.clone();
        }
        let limits = self.unseen_limits(options);
        self.baseline = self.read_memory(0).0;
        self.watch = MemoryWatch::from_first_readings(&self.baseline, clock::now_ns());
        self.sampler.rest_us = REST_US;
        let _ = self.sampler.start_polling();
        let variables =
            std::env::vars_os().filter(|(name, _)| cuda_pitfalls_fake::is_of_cuda(name.as_bytes()));
        self.writer.write(TraceLine::Start(Box::new(TraceStart {
            schema: SchemaId::current(crate::SCHEMA),
            provenance: Provenance::from_simulated(is_simulated),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: options.commit.clone(),
            command: options.command.iter().map(to_lossy_string).collect(),
            folder: std::env::current_dir()
                .map(to_lossy_string)
                .unwrap_or_default(),
            started_at: clock::utc_now(),
            t_ns: self.started_ns,
            on: self.machine.on.clone(),
            driver_version,
            gpus: self.gpus.clone(),
            used_bytes: self.baseline.clone(),
            environment: variables
                .map(|(name, value)| (to_lossy_string(name), to_lossy_string(value)))
                .collect(),
            libcuda: self.machine.libcuda.as_ref().map(to_lossy_string),
            preload: options.preload,
            all_calls: options.all_calls,
            ledger: options.ledger,
            limits,
        })));
    }

    /// Returns sentences that describe what this trace cannot see.
    fn unseen_limits(&mut self, options: &TraceOptions) -> Vec<String> {
        let mut all = Vec::new();
        if let Err(why) = &self.sampler.inventory {
            all.push(format!("memory cannot be read: {}", why.detail));
        }
        if self.machine.libcuda.is_none() {
            all.push(NO_LIBCUDA.to_owned());
            if options.ledger {
                all.push(NO_LEDGER.to_owned());
            }
        }
        if !options.returns.is_empty() {
            all.push(format!("{RETURNED}: {}", options.returns));
        }
        if !options.preload {
            all.push("writes of environment variables are not watched (--no-preload)".to_owned());
        }
        if Path::new(OTHER_HOOK).exists() {
            all.push(format!(
                "{OTHER_HOOK} exists and may prevent the driver from calling the trace hook"
            ));
        }
        let Ok(snapshot) = self.sampler.snapshot() else {
            return all;
        };
        for (index, gpu) in snapshot.gpus.iter().enumerate() {
            let others = match gpu.processes.as_deref().unwrap_or_default() {
                [] => continue,
                [_] => "another process has a context there".to_owned(),
                others => format!("{} other processes have a context there", others.len()),
            };
            all.push(format!(
                "GPU {index} is shared: {others}, so the figures include memory that they allocate or free"
            ));
        }
        all
    }
}

fn to_lossy_string(text: impl AsRef<OsStr>) -> String {
    text.as_ref().to_string_lossy().into_owned()
}
