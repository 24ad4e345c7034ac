//! The GPUs that a mask makes visible, as text.

use crate::block::{Block, Text};
use crate::words::misspelling_sentence;
use crate::writer::terminal::{Screen, write};
use cuda_pitfalls_answers::visibility::{GpuSource, Visibility};
use cuda_pitfalls_core::mask::InitStatus;
use cuda_pitfalls_core::text::counts::counted;

/// Returns the GPUs that a mask makes visible, for a terminal of this width.
pub fn text(answer: &Visibility, screen: impl Into<Screen>) -> String {
    let mut blocks = vec![Block::paragraph(setting_words(answer))];
    for entry in &answer.entries {
        let name = format!("  '{}'", entry.text);
        blocks.push(Block::fact(&name, entry.words(answer.gpus.len())));
    }
    blocks.push(Block::paragraph(outcome(answer)));
    for (ordinal, uuid) in answer.visible.iter().enumerate() {
        // A UUID is copied, so the line is not broken.
        let gpu = Text::code(visible_gpu(answer, uuid));
        blocks.push(Block::fact(&format!("  cuda:{ordinal}"), gpu));
    }
    if !answer.order_known && answer.entries.iter().all(|entry| !entry.is_uuid()) {
        blocks.push(Block::paragraph(UNKNOWN_ORDER));
    }
    for (name, meant) in &answer.misspelt {
        blocks.push(Block::paragraph(misspelling_sentence(name, meant)));
    }
    blocks.push(Block::paragraph(PREDICTED));
    if answer.is_divided {
        blocks.push(Block::paragraph(MIG_READ));
    }
    write(&blocks, screen)
}

const UNKNOWN_ORDER: &str = "These GPUs are different models, and CUDA puts the fastest first, so their order is unknown. With CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA uses the NVML order.";
const PREDICTED: &str = "Predicted from driver 580.159.04; verify with `survey mask`.";
const MIG_READ: &str = "MIG is on: the effect of masks on instances is taken from NVIDIA's documentation (MIG user guide and CUDA programming guide, 2026-11-28), not measured. A process sees only one instance.";

/// Returns the variables, and the GPUs that they apply to.
fn setting_words(answer: &Visibility) -> String {
    let mask = match &answer.mask {
        Some(value) => format!("='{value}'"),
        None => " not set".to_owned(),
    };
    let order = match &answer.order {
        Some(value) => format!(", CUDA_DEVICE_ORDER='{value}'"),
        None => String::new(),
    };
    let place = match &answer.gpus_of {
        GpuSource::Machine => "this machine".to_owned(),
        GpuSource::Simulated { machine } => format!("the simulated machine {machine}"),
        GpuSource::File { path } => path.to_string(),
    };
    let gpus = counted(answer.gpus.len(), "GPU");
    format!("CUDA_VISIBLE_DEVICES{mask}{order}: {gpus} of {place}")
}

/// Returns a visible GPU: its physical index, its UUID and its name, as far as they are known.
fn visible_gpu(answer: &Visibility, uuid: &String) -> String {
    let mut gpus = answer.gpus.iter().enumerate();
    let found = gpus.find(|(_, gpu)| gpu.uuid == *uuid || gpu.instances.contains(uuid));
    match found {
        Some((index, gpu)) => {
            let name = gpu.name.as_deref().unwrap_or_default();
            format!("GPU {index}  {uuid}  {name}").trim_end().to_owned()
        }
        None => uuid.clone(),
    }
}

/// Returns the result of `cuInit` and the GPUs that are then visible.
fn outcome(answer: &Visibility) -> String {
    let status = answer.status.name();
    match answer.status {
        InitStatus::Success
            if answer.visible.len() == answer.gpus.len() && answer.mask.is_none() =>
        {
            "Without a mask, all GPUs are visible:".to_owned()
        }
        InitStatus::Success => format!("{} visible:", counted(answer.visible.len(), "GPU")),
        InitStatus::InvalidDevice if answer.bad_order => format!(
            "No GPU is visible: CUDA_DEVICE_ORDER must be PCI_BUS_ID or FASTEST_FIRST, and cuInit returns {status} ({})",
            answer.status.code()
        ),
        InitStatus::NoDevice | InitStatus::InvalidDevice => {
            format!(
                "No GPU is visible: cuInit returns {status} ({})",
                answer.status.code()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::visibility::{ListedGpu, mask_visibility};

    fn shown(mask: Option<&str>, order: Option<&str>) -> String {
        let gpus = [('a', "NVIDIA H100"), ('b', "NVIDIA T4")].map(|(digit, name)| ListedGpu {
            uuid: format!("GPU-{digit}a00beef-0000-4000-8000-000000000000"),
            name: Some(name.to_owned()),
            instances: Vec::new(),
        });
        text(
            &mask_visibility(
                mask.map(str::to_owned),
                order.map(str::to_owned),
                GpuSource::Machine,
                gpus.into(),
            ),
            80,
        )
    }

    #[test]
    fn each_entry_says_what_it_did_and_the_width_is_kept() {
        let twice = shown(Some("0,0,1"), None);
        assert!(
            twice.contains("'0'       selects GPU 0 again: cuInit fails\n"),
            "{twice}"
        );
        assert!(
            twice.contains("'1'       is ignored\n")
                && twice.contains("CUDA_ERROR_INVALID_DEVICE (101)")
        );
        assert!(twice.contains("puts the fastest first"), "{twice}");
        let ends = shown(Some("1,all"), Some("PCI_BUS_ID"));
        assert!(
            ends.contains("it and later entries are\n")
                && ends.contains("cuda:0    GPU 1  GPU-ba00beef"),
            "{ends}"
        );
        assert!(!ends.contains("fastest"), "{ends}");
        let misspelt = [(
            "CUDA_VISIBLE\u{1b}".to_owned(),
            "CUDA_VISIBLE_DEVICES".to_owned(),
        )]
        .into();
        let near = text(
            &Visibility {
                misspelt,
                ..mask_visibility(None, None, GpuSource::Machine, Vec::new())
            },
            80,
        );
        assert!(
            near.contains("CUDA_VISIBLE\\x1b is not a known CUDA or framework variable"),
            "{near}"
        );
        let hostile = shown(Some("\u{1b}[31m,\n"), Some("pci"));
        assert!(
            !hostile.contains('\u{1b}') && hostile.contains("PCI_BUS_ID or FASTEST_FIRST"),
            "{hostile}"
        );
        for text in [twice, ends, hostile] {
            assert!(
                text.lines().all(|line| line.chars().count() <= 80),
                "{text}"
            );
        }
    }
}
