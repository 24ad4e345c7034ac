//! `mask`: its arguments, and the GPUs that a mask is applied to.

use std::path::Path;

use clap::Args;

use super::output::{CliError, Outcome, ended, fail, print_result};
use crate::gpus::{self, GpusError};
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::visibility::{
    GpuSource, ListedGpu, Visibility, listed, mask_visibility, misspelled_names,
};
use cuda_pitfalls_core::input;
use cuda_pitfalls_core::scenario::environment::meant_by;
use cuda_pitfalls_core::text::json;
use cuda_pitfalls_instrument::simulated;
use cuda_pitfalls_render::visibility as page;
use cuda_pitfalls_trace::history::{MASK, ORDER};

pub(super) const ENDS: &str = "\
Predicted from 2185 values measured on driver 580.159.04 (docs/surveys/mask.md). `survey mask` measures this machine's \
driver.

Exits 0 if the result is known, even if no GPU is visible, 2 if an argument is invalid, 4 if the GPUs are unknown.

Examples:
  cuda-pitfalls mask '0,0'
  cuda-pitfalls mask 1,0 --gpus 8
  nvidia-smi -L > gpus.txt; cuda-pitfalls mask GPU-5a --gpus gpus.txt
  cuda-pitfalls mask --json    # the current environment";

const MOST_LIST_BYTES: u64 = 256 << 10;
/// Maximum number of synthetic GPUs.
const MOST_GPUS: usize = 8;

#[derive(Args, Debug)]
pub(super) struct MaskArguments {
    /// Value of CUDA_VISIBLE_DEVICES [default: from the environment].
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Assume that CUDA_VISIBLE_DEVICES is unset.
    #[arg(long, conflicts_with = "value")]
    unset: bool,
    /// Value of CUDA_DEVICE_ORDER [default: from the environment].
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    order: Option<String>,
    /// GPUs to assume: a count from 1 to 8, `sim:MACHINE`, or a file with `nvidia-smi -L` output
    /// [default: this machine's].
    #[arg(long, value_name = "N|sim:MACHINE|FILE")]
    gpus: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn mask(arguments: &MaskArguments) -> Outcome {
    let [mask_here, order_here] = [MASK, ORDER]
        .map(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()));
    let names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .collect();
    let mut misspelt = misspelled_names(names.iter().map(String::as_str));
    misspelt.retain(|_, meant| [MASK, ORDER].contains(&meant.as_str()));
    let mut mask = arguments
        .value
        .clone()
        .or(if arguments.unset { None } else { mask_here });
    // `CUDA_VISIBLE_DEVICES=0`, as written before a command; misspelled, it sets nothing.
    let written = arguments
        .value
        .as_ref()
        .and_then(|value| value.split_once('='));
    if let Some((name, value)) =
        written.filter(|(name, _)| *name == MASK || meant_by(name) == Some(MASK))
    {
        mask = (name == MASK).then(|| value.to_owned());
        misspelt.extend(meant_by(name).map(|meant| (name.to_owned(), meant.to_owned())));
    }
    let order = arguments.order.clone().or(order_here);
    let (source, gpus) = gpus(arguments)?;
    let answer = Visibility {
        misspelt,
        ..mask_visibility(mask, order, source, gpus)
    };
    Ok(ended(print_result(
        arguments.json,
        || serde_json::to_value(&answer).map(|answer| json::document(&answer)),
        || page::text(&answer, terminal::screen(&std::io::stdout())),
    )))
}

/// Returns the GPUs that the mask is applied to: those of a file, or those that NVML lists.
fn gpus(arguments: &MaskArguments) -> Result<(GpuSource, Vec<ListedGpu>), Exit> {
    let named = arguments.gpus.as_deref().map(source).transpose();
    let simulated = match named.map_err(|why| fail(why, Exit::Usage, arguments.json))? {
        Some(GpuChoice::Listed(path, gpus)) => return Ok((GpuSource::File { path }, gpus)),
        Some(GpuChoice::Simulated(machine)) => Some(machine),
        None => None,
    };
    gpus::list(simulated.as_deref()).map_err(|error| {
        let exit = match error {
            GpusError::Machine(_) => Exit::Usage,
            GpusError::Unavailable(_) | GpusError::Divided(_) => Exit::NothingMeasured,
            GpusError::System(_) => Exit::Internal,
        };
        fail(error, exit, arguments.json)
    })
}

enum GpuChoice {
    Simulated(String),
    Listed(String, Vec<ListedGpu>),
}

fn source(text: &str) -> Result<GpuChoice, CliError> {
    if let Ok(count) = text.parse::<usize>() {
        let sized = (1..=MOST_GPUS)
            .contains(&count)
            .then(|| GpuChoice::Simulated(simulated::sized_machine(count)));
        let other = "write a list of other GPUs into a file, one UUID per line";
        return sized.ok_or_else(|| {
            format!("--gpus {count}: a number from 1 to {MOST_GPUS}; {other}").into()
        });
    }
    if let Some(machine) = text.strip_prefix("sim:") {
        return Ok(GpuChoice::Simulated(machine.to_owned()));
    }
    let path = text.to_owned();
    let list = input::read_text(Path::new(text), MOST_LIST_BYTES)
        .map_err(|error| format!("--gpus {path}: {error}"))?;
    match listed(&list) {
        Ok(gpus) if gpus.is_empty() => Err(format!("--gpus {path}: it lists no GPU").into()),
        Ok(gpus) => Ok(GpuChoice::Listed(path, gpus)),
        Err((line, error)) => Err(format!("{path}:{line}: {error}").into()),
    }
}
