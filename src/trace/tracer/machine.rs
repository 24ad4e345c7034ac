//! The machine of the traced program, and the origin of its driver: real or simulated.

use std::path::{Path, PathBuf};

use super::{NvmlFound, TraceOptions, TracerError};
use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::simulated::MachineError;
use cuda_pitfalls_instrument::supervisor::{self, SamplerClient};
use cuda_pitfalls_instrument::{libraries, simulated};

pub(super) struct TraceTarget {
    /// The path of the real libcuda; `None` if it was not found.
    pub(super) libcuda: Option<PathBuf>,
    /// The folder with the links that lead the sampler to NVML.
    pub(super) links: PathBuf,
    /// A folder of libraries that the program must find: those of the simulated machine.
    pub(super) beside: Option<PathBuf>,
    pub(super) is_simulated: bool,
    /// Calls that the forwarding libcuda answers itself.
    pub(super) returns: String,
    /// The machine: `cuda` or `sim:<machine>`.
    pub(super) on: String,
    /// The sampler, if it was needed to find out whether there is a GPU.
    pub(super) sampler: Option<SamplerClient>,
}

const NEEDS_SIMULATED: &str =
    "--nvml without: only the simulated machine can lack NVML. Add --on sim or --on sim:no-device";

impl TraceTarget {
    /// Finds the libraries in a separate process, or prepares the simulated machine.
    ///
    /// # Errors
    /// Returns an error if the machine is unknown, or if it is unknown whether its driver is real.
    pub(super) fn find(
        program: &Path,
        options: &TraceOptions,
        private: &Path,
        home: &Path,
    ) -> Result<TraceTarget, TracerError> {
        if let On::Sim(name) = &options.on {
            return TraceTarget::simulated(
                name.as_deref().unwrap_or(defaults::MACHINE),
                private,
                options,
            );
        }
        let found =
            supervisor::versions(program, None, home, None).map_err(TracerError::internal)?;
        let is_simulated = found.is_simulated(None).map_err(TracerError::internal)?;
        let libcuda = found
            .libraries
            .iter()
            .find(|library| &library.name == "libcuda" || is_simulated);
        let libcuda = libcuda.map(|library| PathBuf::from(&library.path));
        let found = libraries::Libraries {
            found,
            ..libraries::Libraries::default()
        };
        let links = libraries::link_libraries(&private.join("links"), &found, None)
            .map_err(TracerError::internal)?;
        let mut sampler = None;
        if options.on == On::Auto {
            let started = libcuda
                .is_some()
                .then(|| SamplerClient::start(program, &links, home));
            sampler = started.filter(|started| started.inventory.is_ok());
            if sampler.is_none() {
                return TraceTarget::simulated(defaults::MACHINE, private, options);
            }
        }
        let beside = match options.nvml {
            NvmlFound::Simulated => Some(
                simulated::lay_out_nvml(defaults::MACHINE, &private.join("machine"))
                    .map_err(TracerError::internal)?,
            ),
            NvmlFound::Machine => None,
            NvmlFound::Nothing => return Err(TracerError::Usage(NEEDS_SIMULATED.to_owned())),
        };
        let returns = options.returns.clone();
        Ok(TraceTarget {
            libcuda,
            links,
            beside,
            is_simulated,
            returns,
            on: "cuda".to_string(),
            sampler,
        })
    }

    fn simulated(
        name: &str,
        private: &Path,
        options: &TraceOptions,
    ) -> Result<TraceTarget, TracerError> {
        let (described, returns) = match name {
            simulated::NO_DEVICE => (defaults::MACHINE, simulated::no_device_returns()),
            name => (name, options.returns.clone()),
        };
        let links =
            simulated::lay_out(described, &private.join("machine")).map_err(
                |error| match error {
                    MachineError::File { .. } => TracerError::Internal(error.to_string()),
                    error => TracerError::Usage(format!("--on: {error}")),
                },
            )?;
        simulated::tell_unmodelled(&links).map_err(TracerError::internal)?;
        if options.nvml == NvmlFound::Nothing {
            simulated::hide_library(&links, CallLibrary::Nvml).map_err(TracerError::internal)?;
        }
        let libcuda = Some(links.join("libcuda.so.1"));
        let beside = Some(links.clone());
        let on = format!("sim:{name}");
        Ok(TraceTarget {
            libcuda,
            links,
            beside,
            is_simulated: true,
            returns,
            on,
            sampler: None,
        })
    }
}
