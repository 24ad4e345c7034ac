//! What a mask makes visible, in words.

use crate::block::{Block, Text};
use crate::words::misspelling_sentence;
use crate::writer::terminal::write;
use cuda_pitfalls_answers::visibility::{GpuSource, Visibility};
use cuda_pitfalls_core::mask::InitStatus;
use cuda_pitfalls_core::text::counts::counted;

/// What a mask makes visible, for a terminal of this width.
pub fn text(answer: &Visibility, width: usize) -> String {
    let gpus = counted(answer.gpus.len(), "GPU");
    let of = match &answer.gpus_of {
        GpuSource::Machine => format!("{gpus} of this machine"),
        GpuSource::Simulated { machine } => format!("{gpus} of the simulated machine {machine}"),
        GpuSource::File { path } => format!("{gpus} of {path}"),
    };
    let mask = answer
        .mask
        .as_ref()
        .map_or(" not set".to_owned(), |value| format!("='{value}'"));
    let order = answer
        .order
        .as_ref()
        .map(|value| format!(", CUDA_DEVICE_ORDER='{value}'"))
        .unwrap_or_default();
    let mut blocks = vec![Block::paragraph(format!(
        "CUDA_VISIBLE_DEVICES{mask}{order}: {of}"
    ))];
    let entries = answer.entries.iter();
    blocks.extend(entries.map(|entry| {
        Block::fact(
            &format!("  '{}'", entry.text),
            entry.words(answer.gpus.len()),
        )
    }));
    blocks.push(Block::paragraph(outcome(answer)));
    blocks.extend(answer.visible.iter().enumerate().map(|(ordinal, uuid)| {
        let index = answer
            .gpus
            .iter()
            .position(|gpu| gpu.uuid == *uuid || gpu.instances.contains(uuid));
        let name = index
            .and_then(|index| answer.gpus.get(index)?.name.clone())
            .unwrap_or_default();
        let index = index
            .map(|index| format!("GPU {index}"))
            .unwrap_or_default();
        // An UUID is copied, so the line is not broken.
        Block::fact(
            &format!("  cuda:{ordinal}"),
            Text::code(format!("{index}  {uuid}  {name}").trim()),
        )
    }));
    if !answer.order_known && answer.entries.iter().all(|entry| !entry.is_uuid()) {
        let says = "These GPUs are not of one model, and CUDA puts the fastest first: which one has which number is not \
                    known here. CUDA_DEVICE_ORDER=PCI_BUS_ID makes CUDA's numbers those of NVML.";
        blocks.push(Block::paragraph(says));
    }
    blocks.extend(
        answer
            .misspelt
            .iter()
            .map(|(name, meant)| Block::paragraph(misspelling_sentence(name, meant))),
    );
    let rule = "Predicted by the rule that driver 580.159.04 was measured to follow, and not measured here.";
    blocks.push(Block::paragraph(rule));
    if answer.is_divided {
        let mig = "MIG is on: what a mask makes of instances was read in NVIDIA's documentation (MIG user guide and CUDA \
                   programming guide, 2026-11-28), and not measured. A process sees one instance alone.";
        blocks.push(Block::paragraph(mig));
    }
    write(&blocks, width)
}

/// What `cuInit` returns and what is visible then.
fn outcome(answer: &Visibility) -> String {
    let status = answer.status.name();
    match answer.status {
        InitStatus::Success
            if answer.visible.len() == answer.gpus.len() && answer.mask.is_none() =>
        {
            "Without a mask all are visible:".to_owned()
        }
        InitStatus::Success => format!("{} visible:", counted(answer.visible.len(), "GPU")),
        InitStatus::InvalidDevice if answer.bad_order => format!(
            "No GPU is visible: CUDA_DEVICE_ORDER has to be PCI_BUS_ID or FASTEST_FIRST, and cuInit returns {status} ({})",
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
            near.contains("CUDA_VISIBLE\\x1b is no variable that CUDA or a framework is known to"),
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
