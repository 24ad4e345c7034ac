//! A description as `machine.conf`, with one line per value, so that the library needs no TOML parser.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::description::{Description, DescriptionError};

/// Returns the text of `machine.conf`, from a description that was checked.
pub(super) fn text(machine: &str, node: &Description) -> Result<String, DescriptionError> {
    let mut lines = table_fields(json!(node));
    lines.insert(
        "machine".to_owned(),
        json!(
            Path::new(machine)
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
        ),
    );
    lines.insert("gpus".to_owned(), json!(node.gpu.len()));
    for (index, gpu) in node.gpu.iter().enumerate() {
        let model = node.model(index, gpu)?;
        let (major, minor) = model.parse_capability()?;
        let own = json!({
            "uuid": gpu.uuid, "cuda_uuid": gpu.cuda_uuid.as_ref().unwrap_or(&gpu.uuid), "pci_bus_id": gpu.pci_bus_id, "context_listed_bytes": model.listed(),
            "capability_major": major, "capability_minor": minor,
        });
        let all = table_fields(json!(model))
            .into_iter()
            .chain(table_fields(own));
        lines.extend(all.map(|(key, value)| (format!("gpu.{index}.{key}"), value)));
    }
    let mut conf = String::from(
        "# Written by cuda-pitfalls for the simulated machine in this directory.\nformat = 1\n",
    );
    for (key, value) in lines {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        if value.is_empty() || value.contains(char::is_control) {
            return Err(DescriptionError::Text(key));
        }
        conf.push_str(&format!("{key} = {value}\n"));
    }
    Ok(conf)
}

fn table_fields(table: Value) -> Map<String, Value> {
    match table {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
