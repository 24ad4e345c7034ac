//! `visible`: the GPUs that the process sees.

use serde_json::json;

use super::gpus::compare_names;
use super::{FactColumn, FactKind, GpuList, Look, Sight, Unasked, words};
use crate::source::schema::reference;

/// Statuses with which a driver reports that the machine has no GPU.
const NO_DEVICE: [&str; 2] = ["CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice"];

pub(super) const VISIBLE: FactKind = FactKind {
    key: "visible",
    read: |facts, file, node| facts.visible = GpuList::read(file, node),
    schema: || reference("gpus"),
    matchers: |_| Vec::new(),
    sentences: |facts| {
        facts
            .visible
            .iter()
            .map(|gpus| format!("the process sees {}", gpus.words(", ")))
            .collect()
    },
    held: |facts, look, gpus| {
        let Some(expected) = &facts.visible else {
            return Vec::new();
        };
        let seen = look
            .step
            .visible
            .clone()
            .or_else(|| saw_no_device(look).then(Vec::new));
        vec![compare_names("visible", seen, &expected.names(gpus), gpus)]
    },
    needs_polling: false,
    told: FactColumn::Alone {
        heading: "sees",
        brief: "sees",
        unasked: Unasked::Last,
    },
    seen: |look, _| {
        let names = look.step.visible.as_ref()?;
        let cell = words::gpus(names);
        Some(Sight {
            words: format!("sees {cell}"),
            cell,
            exact: json!(names),
        })
    },
};

/// Returns `true` if a call has reported that the machine has no GPU, and nothing was initialized since. Such a driver
/// answers probes as if it were not initialized, so they cannot show it.
fn saw_no_device(look: &Look<'_>) -> bool {
    look.step.initialised != Some(true)
        && look.so_far().iter().any(|step| {
            let name = step
                .status
                .as_ref()
                .and_then(|status| status.name.as_deref());
            name.is_some_and(|name| NO_DEVICE.contains(&name))
        })
}
