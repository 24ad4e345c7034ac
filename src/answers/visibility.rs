//! The GPUs that a mask makes visible, and why: the answer of `mask`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use cuda_pitfalls_core::mask::{self, Fate, InitStatus, MaskReading};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::scenario::environment::meant_by;

const SCHEMA: &str = "cuda-pitfalls-visibility";

/// Value that makes CUDA number GPUs in NVML's order.
const PCI_ORDER: &str = "PCI_BUS_ID";

/// GPUs that a process sees with a mask. The result is predicted by the rule of [`cuda_pitfalls_core::mask`], and not
/// measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Visibility")]
pub struct Visibility {
    /// Schema of this document.
    pub schema: SchemaId,
    /// The value of `CUDA_VISIBLE_DEVICES`; null if it is not set.
    pub mask: Option<String>,
    /// The value of `CUDA_DEVICE_ORDER`; null if it is not set.
    pub order: Option<String>,
    /// Source of the list of GPUs.
    pub gpus_of: GpuSource,
    /// All GPUs in PCI order, which is the same as NVML's.
    pub gpus: Vec<ListedGpu>,
    /// Status that `cuInit` returns.
    pub status: InitStatus,
    /// UUIDs of the visible GPUs, in the order of CUDA's ordinals; empty unless `cuInit` succeeds.
    pub visible: Vec<String>,
    /// Entries of the mask, each with its effect; empty without a mask.
    pub entries: Vec<mask::MaskEntry>,
    /// `true` if `CUDA_DEVICE_ORDER` has an unknown value.
    pub bad_order: bool,
    /// `true` if a GPU is divided by MIG. The effect of a mask on MIG instances comes from NVIDIA's documentation and
    /// was not measured.
    pub is_divided: bool,
    /// `true` if CUDA's device ordinals are known to equal NVML's indices. `false` for GPUs of different models without
    /// `CUDA_DEVICE_ORDER=PCI_BUS_ID`, because CUDA then puts the fastest first.
    pub order_known: bool,
    /// Variables that are set and that no known program reads, each with the known variable of the most similar
    /// spelling: see [`misspelled_names`].
    pub misspelt: BTreeMap<String, String>,
}

/// Returns the variables whose names are misspelled, each with the similar variable that CUDA or a framework reads.
pub fn misspelled_names<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeMap<String, String> {
    let mut misspelled = BTreeMap::new();
    for name in names {
        if let Some(meant) = meant_by(name) {
            misspelled.insert(name.to_owned(), meant.to_owned());
        }
    }
    misspelled
}

/// Source of the list of GPUs that a mask is applied to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum GpuSource {
    /// The GPUs of this machine, as listed by NVML.
    Machine,
    /// The GPUs of a simulated machine.
    Simulated {
        /// Name of the machine, or path of its description.
        machine: String,
    },
    /// The GPUs that a file lists.
    File {
        /// The path of the file.
        path: String,
    },
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedGpu {
    /// The UUID.
    pub uuid: String,
    /// Model, if known.
    pub name: Option<String>,
    /// MIG instances of the GPU, as `MIG-…`; empty if it is not divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
}

/// Returns the GPUs that these values of the two variables make visible.
pub fn mask_visibility(
    mask: Option<String>,
    order: Option<String>,
    gpus_of: GpuSource,
    gpus: Vec<ListedGpu>,
) -> Visibility {
    let uuids: Vec<String> = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    let is_divided = gpus.iter().any(|gpu| !gpu.instances.is_empty());
    let mut instances: Vec<Vec<String>> = Vec::new();
    for gpu in &gpus {
        let devices = gpu.instances.iter();
        let uuids = devices.filter_map(|device| device.strip_prefix("MIG-"));
        instances.push(uuids.map(str::to_owned).collect());
    }
    let reading = mask::read_divided(mask.as_deref(), order.as_deref(), &uuids, &instances);
    let MaskReading {
        parsed,
        entries,
        bad_order,
    } = reading;
    let shown_instance = match entries.first().map(|entry| entry.fate) {
        Some(Fate::Instance { gpu, instance }) => {
            gpus.get(gpu).and_then(|gpu| gpu.instances.get(instance))
        }
        None if is_divided => {
            let first = parsed.gpus.first();
            first.and_then(|gpu| gpus.get(*gpu)?.instances.first())
        }
        _ => None,
    };
    let mut visible = Vec::from_iter(shown_instance.cloned());
    if visible.is_empty() {
        let shown = parsed.gpus.iter();
        visible.extend(shown.filter_map(|gpu| uuids.get(*gpu).cloned()));
    }
    let models: std::collections::BTreeSet<_> = gpus.iter().map(|gpu| &gpu.name).collect();
    let order_known = models.len() <= 1 || order.as_deref() == Some(PCI_ORDER);
    Visibility {
        schema: SchemaId::current(SCHEMA),
        mask,
        order,
        gpus_of,
        gpus,
        status: parsed.status,
        visible,
        entries,
        bad_order,
        is_divided,
        order_known,
        misspelt: BTreeMap::new(),
    }
}

/// Parses a list of GPUs, one GPU per line: the output of `nvidia-smi -L` or `nvidia-smi --query-gpu=uuid`. Empty lines
/// and lines that begin with `#` are skipped.
///
/// # Errors
/// Returns the number of the first invalid line, and the reason.
pub fn listed(text: &str) -> Result<Vec<ListedGpu>, (usize, GpuListError)> {
    let mut gpus: Vec<ListedGpu> = Vec::new();
    for (number, untrimmed) in (1..).zip(text.lines()) {
        let line = untrimmed.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(instance) = instance_in(line) {
            gpus.last_mut()
                .ok_or((number, GpuListError::Mig))?
                .instances
                .push(instance.to_owned());
            continue;
        }
        let gpu = gpu_of(line).map_err(|error| (number, error))?;
        let mut known = gpus.iter();
        if known.any(|known| known.uuid.eq_ignore_ascii_case(&gpu.uuid)) {
            return Err((number, GpuListError::Twice));
        }
        gpus.push(gpu);
    }
    Ok(gpus)
}

/// Reason why a line of a list of GPUs is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuListError {
    /// The line has no UUID.
    #[error(
        "there is no UUID of the form GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx; `nvidia-smi -L` prints a list of them"
    )]
    NoUuid,
    /// The line is a MIG instance.
    #[error(
        "a MIG instance without its GPU: list the GPU on the line before it, as `nvidia-smi -L` does"
    )]
    Mig,
    /// The UUID is listed twice.
    #[error("this GPU is already in the list")]
    Twice,
}

/// The lengths of the parts of a UUID.
const PARTS: [usize; 5] = [8, 4, 4, 4, 12];

fn gpu_of(line: &str) -> Result<ListedGpu, GpuListError> {
    let Some(uuid) = words_without_punctuation(line).find(|word| is_uuid(word)) else {
        return Err(GpuListError::NoUuid);
    };
    // `GPU 0: NVIDIA H200 (UUID: GPU-…)`
    let mut name = None;
    if let Some(numbered) = line.strip_prefix("GPU ")
        && let Some((_, named)) = numbered.split_once(": ")
        && let Some((model, _)) = named.split_once(" (")
    {
        name = Some(model.to_owned());
    }
    Ok(ListedGpu {
        uuid: uuid.to_owned(),
        name,
        instances: Vec::new(),
    })
}

fn words_without_punctuation(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split_ascii_whitespace();
    words.map(|word| word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()))
}

/// Returns the MIG instance on a line: `  MIG 1g.5gb      Device  0: (UUID: MIG-…)`.
fn instance_in(line: &str) -> Option<&str> {
    let mut words = words_without_punctuation(line);
    words.find(|word| word.starts_with("MIG-") && word.len() > "MIG-".len())
}

fn is_uuid(word: &str) -> bool {
    let Some(digits) = word.strip_prefix("GPU-") else {
        return false;
    };
    let lengths = digits.split('-').map(str::len);
    lengths.eq(PARTS) && digits.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "GPU 0: NVIDIA H200 (UUID: GPU-aa00beef-0000-4000-8000-000000000000)\n\
                        # the second\n\nGPU-ab00beef-0000-4000-8000-000000000001\n";

    #[test]
    fn a_list_is_what_nvidia_smi_prints() {
        let gpus = listed(LIST).unwrap();
        let shown: Vec<_> = gpus
            .iter()
            .map(|gpu| (gpu.uuid.get(..12).unwrap(), gpu.name.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("GPU-aa00beef", Some("NVIDIA H200")),
                ("GPU-ab00beef", None)
            ]
        );
        for (text, line, error) in [
            ("0", 1, GpuListError::NoUuid),
            ("\nGPU-aa00beef", 2, GpuListError::NoUuid),
            (
                "  MIG 1g.5gb Device 0: (UUID: MIG-aa00beef-0000-4000-8000-000000000000)",
                1,
                GpuListError::Mig,
            ),
            (
                &format!("{LIST}gpu=GPU-aa00beef-0000-4000-8000-000000000000"),
                5,
                GpuListError::NoUuid,
            ),
            (
                &format!("{LIST}GPU-AA00beef-0000-4000-8000-000000000000"),
                5,
                GpuListError::Twice,
            ),
        ] {
            assert_eq!(listed(text), Err((line, error)), "{text}");
        }
    }

    #[test]
    fn instances_are_those_of_the_gpu_before_them() {
        let list = "GPU 0: NVIDIA A100 (UUID: GPU-aa00beef-0000-4000-8000-000000000000)\n\
                    \x20 MIG 3g.20gb Device  0: (UUID: MIG-1111beef-0000-4000-8000-000000000000)\n\
                    \x20 MIG 3g.20gb Device  1: (UUID: MIG-2222beef-0000-4000-8000-000000000000)\n\
                    GPU 1: NVIDIA A100 (UUID: GPU-ab00beef-0000-4000-8000-000000000001)\n";
        let gpus = listed(list).unwrap();
        assert_eq!(
            gpus.iter()
                .map(|gpu| gpu.instances.len())
                .collect::<Vec<_>>(),
            [2, 0]
        );
        let visible = |mask: Option<&str>| {
            let answer = mask_visibility(
                mask.map(str::to_owned),
                None,
                GpuSource::Machine,
                gpus.clone(),
            );
            assert!(answer.is_divided);
            answer.visible
        };
        let [first, second] = [&gpus[0].instances[0], &gpus[0].instances[1]];
        assert_eq!(visible(None), [first.as_str()]);
        assert_eq!(visible(Some("0,1")), [first.as_str()]);
        assert_eq!(visible(Some(second)), [second.as_str()]);
        assert_eq!(visible(Some("1")), [gpus[1].uuid.as_str()]);
    }

    #[test]
    fn the_answer_has_the_gpus_in_order_and_knows_what_it_does_not() {
        let gpus = listed(LIST).unwrap();
        let answer = |order: Option<&str>| {
            mask_visibility(
                Some("1,0,7,x".to_owned()),
                order.map(str::to_owned),
                GpuSource::Machine,
                gpus.clone(),
            )
        };
        let turned = answer(Some("PCI_BUS_ID"));
        assert_eq!(
            turned.visible,
            [gpus[1].uuid.as_str(), gpus[0].uuid.as_str()]
        );
        // If the model of one of the two is unknown, they may differ.
        assert!(turned.order_known && !answer(None).order_known);
    }
}
