//! The JSON Schema of the file format, so that editors complete and check a file while it is written. It is generated
//! from the types of [`super::file`], and from the tables of calls and facts. [`super::load`] decides: only it checks
//! rules that a schema cannot express (that labels exist, that handles are bound).

mod steps;

use serde_json::{Map, Value, json};

use super::environment;
use super::file::ScenarioFile;
use crate::fact;
use crate::report::schema_of;
use crate::source::schema::{BYTES, object_schema, or_parameter, reference, sentence, set};

/// Returns the schema of a scenario file (JSON Schema 2020-12).
pub fn file_schema() -> Value {
    let mut schema = schema_of::<ScenarioFile>();
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        definitions.append(&mut table_definitions());
    }
    schema
}

/// Returns the definitions from the tables of calls, variables and facts.
fn table_definitions() -> Map<String, Value> {
    let parameter = json!({
        "description": "A parameter of the file, or a GPU that the plan fills in.",
        "type": "string", "pattern": "\\$\\{[a-z0-9_]+\\}",
    });
    let names: Vec<&str> = environment::in_scenarios().collect();
    let mut definitions = Map::new();
    for (name, schema) in fact::schema_definitions() {
        definitions.insert(name.to_string(), schema);
    }
    let bytes =
        json!([{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": BYTES }]);
    let variable = json!([{ "enum": names }, framework_variable()]);
    definitions.insert("parameter".to_string(), parameter);
    definitions.insert("bytes".to_string(), or_parameter(bytes));
    definitions.insert("variable".to_string(), or_parameter(variable));
    definitions.insert("check".to_string(), check_schema());
    let step = steps::step_schema(&mut definitions);
    definitions.insert("step".to_string(), step);
    definitions
}

/// Returns the schema of a framework's environment variable, for cases of Python lines.
fn framework_variable() -> Value {
    let prefixes = environment::framework_prefixes()
        .collect::<Vec<_>>()
        .join("|");
    let names = environment::launcher_variables()
        .collect::<Vec<_>>()
        .join("|");
    json!({ "description": "A framework's variable; only in a case of Python lines.", "type": "string", "pattern": format!("^(({prefixes})[A-Z0-9_]+|{names})$") })
}

fn check_schema() -> Value {
    let mut properties = json!({
        "at": sentence("The label of a step, or its C name where that is unique."),
        "when": reference("When"),
        "because": sentence("The reason, in a sentence."),
        "evidence": sentence("The committed report that supports it."),
    });
    for (key, schema) in fact::kind_schemas() {
        set(&mut properties, key, schema);
    }
    let mut schema = object_schema(properties, &[]);
    let one_of = json!([{ "required": ["at"] }, { "required": ["exit"] }]);
    set(&mut schema, "oneOf", one_of);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_calls as calls;

    fn value(source: &str) -> Value {
        serde_json::to_value(toml::from_str::<toml::Table>(source).unwrap()).unwrap()
    }

    const FILE: &str = r#"
question = "Is it?"
belief = "It is."
no_control = "one case is enough here"
effect = [ { at = "n", status = ["CUDA_SUCCESS"], used_bytes = { gpu0 = { lt = "1 MiB" }, gpu10 = "@n.x" } }, { exit = "SIGSEGV" }, { exit = ["SIGSEGV", 0] } ]
[parameters]
q = ["cuInit"]
[cases.trap]
does = "${q}"
env = { CUDA_VISIBLE_DEVICES = "0" }
steps = [ { "${q}" = {} }, { cudaSetDevice = { device = "${q}" }, label = "n" }, { fork = { as = "B" } } ]
"#;

    #[test]
    fn a_good_file_validates_and_bad_ones_do_not() {
        let schema = file_schema();
        jsonschema::meta::validate(&schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value(FILE))
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        for (from, to) in [
            ("device =", "devise ="),
            ("cudaSetDevice", "cudaSetDevise"),
            ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD"),
            ("1 MiB", "1 MB"),
            ("belief", "folk_lore"),
            ("gpu10", "gpu64"),
            ("CUDA_SUCCESS", "CUDA_SUCESS"),
            ("no_control = \"one case is enough here\"", ""),
            ("{ fork = { as = \"B\" } }", "{ fork = {} }"),
            ("exit = \"SIGSEGV\"", "exit = \"SIGSEGV\", at = \"n\""),
        ] {
            assert!(FILE.contains(from), "{from}");
            assert!(
                !validator.is_valid(&value(&FILE.replace(from, to))),
                "{from} -> {to}"
            );
        }
    }

    #[test]
    fn python_lines_validate() {
        const LINES: &str = r#"
question = "Is it?"
belief = "It is."
no_control = "one case is enough here"
effect = [ { at = "ask", status = ["OK", "RuntimeError"], calls = { cuInit = { ge = 1 } } } ]
[cases.trap]
does = "asks"
python = { needs = ["torch >= 2.0"] }
env = { LOCAL_RANK = "1", TORCH_LOGS = "all" }
steps = [ { py = "import torch" }, { py = "1 + 1", as_value = "two", varies = true, label = "ask", on = "B" } ]
"#;
        let validator = jsonschema::validator_for(&file_schema()).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value(LINES))
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        for (from, to) in [
            ("needs = [\"torch >= 2.0\"]", "need = []"),
            ("LOCAL_RANK", "PYTHONPATH"),
            ("RuntimeError", "runtime_error"),
            ("py = \"import torch\"", "py = 1"),
            ("varies = true", "varies = 1"),
        ] {
            assert!(LINES.contains(from), "{from}");
            assert!(
                !validator.is_valid(&value(&LINES.replace(from, to))),
                "{from} -> {to}"
            );
        }
    }

    #[test]
    fn every_step_is_described() {
        let schema = file_schema();
        for kind in calls::all() {
            let step = &schema["$defs"]["step"]["properties"][kind.name];
            assert!(
                step["description"]
                    .as_str()
                    .is_some_and(|text| text.starts_with(kind.summary)),
                "{}",
                kind.name
            );
        }
    }
}
