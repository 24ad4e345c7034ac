//! A description as `machine.conf`, with one line per value, so that the library needs no TOML parser.

use std::fmt::{Display, Write as _};
use std::path::Path;

use super::description::{Description, Impossible};

/// The text of `machine.conf`, from a description that was checked.
pub(super) fn of(machine: &str, node: &Description) -> Result<String, Impossible> {
    let mut conf = String::from("# Written by cuda-pitfalls for the simulated machine beside it.\nformat = 1\n");
    let mut line = |key: &str, value: &dyn Display| {
        let value = value.to_string();
        if value.is_empty() || value.contains(char::is_control) {
            return Err(Impossible::Line(key.to_string()));
        }
        // Writing to a text in memory cannot fail.
        let _ = writeln!(conf, "{key} = {value}");
        Ok(())
    };
    line("machine", &Path::new(machine).file_stem().unwrap_or_default().display())?;
    line("driver_version", &node.driver_version)?;
    line("cuda_driver_version", &node.cuda_driver_version)?;
    line("cuda_runtime_version", &node.cuda_runtime_version)?;
    line("alloc_granularity_bytes", &node.alloc_granularity_bytes)?;
    line("pool_granularity_bytes", &node.pool_granularity_bytes)?;
    line("malloc_heap_bytes", &node.malloc_heap_bytes)?;
    line("stack_bytes", &node.stack_bytes)?;
    line("printf_fifo_bytes", &node.printf_fifo_bytes)?;
    line("gpus", &node.gpu.len())?;
    for (index, gpu) in node.gpu.iter().enumerate() {
        let model = node.model(index, gpu)?;
        let (major, minor) = model.capability()?;
        let mut line = |key: &str, value: &dyn Display| line(&format!("gpu.{index}.{key}"), value);
        line("uuid", &gpu.uuid)?;
        line("pci_bus_id", &gpu.pci_bus_id)?;
        line("name", &model.name)?;
        line("total_bytes", &model.total_bytes)?;
        line("reserved_bytes", &model.reserved_bytes)?;
        line("init_bytes", &model.init_bytes)?;
        line("context_bytes", &model.context_bytes)?;
        line("context_listed_bytes", &model.listed())?;
        line("stream_bytes", &model.stream_bytes)?;
        line("module_bytes", &model.module_bytes)?;
        line("heap_module_bytes", &model.heap_module_bytes)?;
        line("heap_launch_bytes", &model.heap_launch_bytes)?;
        line("capability_major", &major)?;
        line("capability_minor", &minor)?;
        line("sm_count", &model.sm_count)?;
        line("max_threads_per_sm", &model.max_threads_per_sm)?;
        line("speed_rank", &model.speed_rank)?;
        line("pci_device_id", &model.pci_device_id)?;
        line("peer_group", &model.peer_group)?;
        line("mig_capable", &model.mig_capable)?;
        line("persistence_mode", &model.persistence_mode)?;
    }
    Ok(conf)
}

#[cfg(test)]
mod tests {
    use crate::simulated::{flatten, machine_names, read};

    #[test]
    fn every_machine_is_possible() {
        for name in machine_names() {
            let text = flatten(name, &read(name).unwrap(), None).unwrap();
            assert!(text.contains("gpu.0.uuid = GPU-000000"), "{name}");
        }
    }

    #[test]
    fn a_description_is_held_to_its_form() {
        let good = read("h200-x2").unwrap();
        for (from, to, says) in [
            ("sm_count", "sm_cuont", "unknown field `sm_cuont`"),
            ("sm_count = 132", "", "missing field `sm_count`"),
            ("sm_count = 132", "sm_count = -1", "line "),
            ("sm_count = 132", "sm_count = 0", "the model `h200`: `sm_count` is 0"),
            ("GPU-00000002-0000-4000-8000-000000000002", "GPU-00000001-0000-4000-8000-000000000001", "two GPUs"),
            (":07.0", ":05.0", "PCI order"),
            (":07.0", ":0z.0", "not a PCI address"),
            ("GPU-00000002-0000-4000-8000-000000000002", "GPU-2", "not a UUID"),
            ("\"9.0\"", "\"nine\"", "compute capability"),
            ("model = \"h200\"", "model = \"h300\"", "not described"),
            ("\"580.159.04\"", "\"new\"", "not a driver version"),
            ("\"580.159.04\"", "\"5\\n8\"", "one line of text"),
            ("cuda_runtime_version = 13000", "cuda_runtime_version = 13", "13000 for 13.0"),
            ("reserved_bytes = 644_939_776", "reserved_bytes = 150_754_820_096", "leaves nothing"),
            ("context_bytes = 548_995_072", "context_bytes = 200_000_000_000", "more than the memory"),
            ("context_listed_bytes = 543_162_368", "context_listed_bytes = 548_995_073", "more than `context_bytes`"),
            ("[models.h200]", "alloc_granularity_bytes = 3000\n[models.h200]", "power of two"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = flatten("test", &good.replace(from, to), None).unwrap_err().to_string();
            assert!(error.contains("`test`") && error.contains(says), "{to}: {error}");
        }
    }
}
