//! The GPUs of a machine, as NVML lists them in a separate process.

use cuda_pitfalls_answers::visibility::{GpuSource, ListedGpu};
use cuda_pitfalls_instrument::folder::Folder;
use cuda_pitfalls_instrument::simulated::{self, MachineError};
use cuda_pitfalls_instrument::supervisor::{Interrupt, SamplerClient};

/// Reasons why the GPUs are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GpusError {
    /// NVML does not answer.
    #[error("NVML does not list the GPUs of this machine: {0}; specify them with --gpus")]
    Unavailable(String),
    /// A GPU is divided.
    #[error(
        "MIG is on ({0}), but its instances are not listed here; run `nvidia-smi -L > gpus.txt`, then `mask --gpus gpus.txt`"
    )]
    Divided(String),
    /// The simulated machine could not be created.
    #[error("--gpus: {0}")]
    Machine(#[from] MachineError),
    /// A private folder could not be created.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// Returns the GPUs of this machine, or of a simulated one, in NVML's order.
pub(crate) fn list(simulated: Option<&str>) -> Result<(GpuSource, Vec<ListedGpu>), GpusError> {
    let program = std::env::current_exe()?;
    // Ctrl-C ends the sampler too, and the private folder is removed.
    let _interrupt = Interrupt::install()?;
    let home = Folder::create()?;
    // An empty folder of links: the loader finds NVML as for any program.
    let links = match simulated {
        Some(machine) => simulated::lay_out(machine, &home.path().join("node"))?,
        None => home.path().to_path_buf(),
    };
    let sampler = SamplerClient::start(&program, &links, home.path());
    let inventory = sampler
        .inventory
        .as_ref()
        .map_err(|why| GpusError::Unavailable(why.detail.clone()))?;
    if let Some(divided) = inventory.gpus.iter().find(|gpu| gpu.mig == Some(true)) {
        return Err(GpusError::Divided(divided.uuid.clone()));
    }
    let gpus = inventory.gpus.iter().map(|gpu| ListedGpu {
        uuid: gpu.uuid.clone(),
        name: gpu.name.clone(),
        instances: Vec::new(),
    });
    let source = match simulated {
        Some(machine) => GpuSource::Simulated {
            machine: machine.to_owned(),
        },
        None => GpuSource::Machine,
    };
    Ok((source, gpus.collect()))
}
