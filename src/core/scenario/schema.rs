//! The JSON Schema of the file format, made from the tables of calls, so that editors complete and check a file while
//! it is written. [`super::load`] has the last word: only it checks what a schema cannot express (that labels exist,
//! that handles are bound).

mod shared;
mod steps;

use serde_json::{Value, json};

use super::{Hazard, environment, symptom};
use crate::defaults;
use crate::fact;
use crate::source::schema::{
    BYTES, object_schema, one_or_more, or_parameter, reference, sentence, set,
};

/// The schema of a scenario file (JSON Schema 2020-12).
pub fn file_schema() -> Value {
    shared::shared(whole())
}

/// The schema before repeated parts become definitions.
fn whole() -> Value {
    let mut schema = object_schema(
        top_level_properties(),
        &["question", "belief", "effect", "cases"],
    );
    set(
        &mut schema,
        "$schema",
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    set(&mut schema, "title", json!("a scenario of cuda-pitfalls"));
    set(&mut schema, "$defs", schema_definitions());
    // Either a control, or the reason why there can be none.
    let control = json!({ "properties": { "cases": { "required": ["control"] } } });
    set(
        &mut schema,
        "oneOf",
        json!([control, { "required": ["no_control"] }]),
    );
    schema
}

pub(super) fn top_level_keys() -> Vec<String> {
    top_level_properties()
        .as_object()
        .into_iter()
        .flat_map(|properties| properties.keys().cloned())
        .collect()
}

fn top_level_properties() -> Value {
    let mut properties = text_properties();
    for (key, value) in measurement_properties().as_object().into_iter().flatten() {
        set(&mut properties, key, value.clone());
    }
    properties
}

fn text_properties() -> Value {
    json!({
        "question": { "description": "The question, ending in a question mark.", "type": "string", "pattern": "\\?$" },
        "belief": sentence("The common belief."),
        "answer": sentence("What was measured, in a sentence or two."),
        "workaround": sentence("The workaround: the order or call that works."),
        "twin": {
            "description": "The scenario that asks the same with CUDA calls alone, such as visibility/mask-after-cuinit.",
            "type": "string", "pattern": "^[a-z0-9-]+/[a-z0-9-]+$",
        },
        "tags": {
            "description": "Words to select by.",
            "type": "array", "items": { "type": "string", "pattern": "^[a-zA-Z0-9_-]+$" },
        },
        "symptoms": {
            "description": "The symptoms that people see; scenarios/symptoms.toml has the sentences.",
            "type": "array", "uniqueItems": true, "items": { "enum": symptom_ids() },
        },
        "says": {
            "description": "Messages and phrasings that people paste, where no other text of the file has them: `explain` finds the scenario by them.",
            "type": "array", "uniqueItems": true, "items": { "type": "string", "minLength": 1, "maxLength": 160 },
        },
        "sources": { "description": "Where the question comes from.", "type": "array", "items": sentence("A link.") },
    })
}

fn measurement_properties() -> Value {
    json!({
        "needs": needs(),
        "gpus": gpus("How many GPUs workers are started with; those of `needs` if absent."),
        "hazards": {
            "description": "Dangers to other users of the machine.",
            "type": "array", "items": { "enum": Hazard::LISTED.map(Hazard::name) },
        },
        "repeat": {
            "description": "Attempts of each case.",
            "type": "integer", "minimum": 1, "maximum": 100, "default": defaults::REPEAT,
        },
        "step_timeout": duration_schema("The most that one step may take, at most 120s.", defaults::STEP_TIMEOUT_S),
        "timeout": duration_schema("The most that one attempt may take, at most 600s.", defaults::TIMEOUT_S),
        "nondeterministic": {
            "description": "Whether a mixture of outcomes is an answer.",
            "type": "boolean", "default": false,
        },
        "effect": {
            "description": "The pitfall: it shows in an attempt when all of these hold.",
            "type": "array", "minItems": 1, "items": reference("check"),
        },
        "expect": {
            "description": "Which verdict is expected where; the first whose `when` matches counts.",
            "type": "array", "items": reference("expectation"),
        },
        "expect_when": reference("when"),
        "no_control": sentence("Why there can be no control."),
        "parameters": {
            "description": "Values to fill in for `${name}`; one instance for each combination.",
            "type": "object",
            "propertyNames": { "pattern": "^[a-z0-9_]+$" },
            "additionalProperties": {
                "type": "array", "minItems": 1, "uniqueItems": true, "items": { "type": ["string", "integer"] },
            },
        },
        "cases": {
            "description": "The ordered lists of calls that are compared.",
            "type": "object", "required": ["trap"], "maxProperties": 16,
            "propertyNames": { "pattern": "^[a-z0-9_-]+$" },
            "additionalProperties": reference("case"),
        },
    })
}

fn schema_definitions() -> Value {
    let mut definitions = json!({
        "parameter": {
            "description": "A parameter of the file, or a GPU that the plan fills in.",
            "type": "string", "pattern": "\\$\\{[a-z0-9_]+\\}",
        },
        "range": { "type": "string", "pattern": RANGE },
        "bytes": or_parameter(json!([{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": BYTES }])),
        "variable": or_parameter(json!([{ "enum": environment::in_scenarios().collect::<Vec<_>>() }, framework_variable()])),
        "when": when(),
        "expectation": expectation_schema(),
        "check": check(),
        "case": case(),
        "step": steps::step(),
    });
    fact::schema_definitions()
        .into_iter()
        .for_each(|(name, schema)| set(&mut definitions, name, schema));
    definitions
}

/// An environment variable of a framework, for cases of Python lines.
fn framework_variable() -> Value {
    let prefixes = environment::framework_prefixes()
        .collect::<Vec<_>>()
        .join("|");
    let names = environment::launcher_variables()
        .collect::<Vec<_>>()
        .join("|");
    json!({ "description": "In a case of Python lines.", "type": "string", "pattern": format!("^(({prefixes})[A-Z0-9_]+|{names})$") })
}

const RANGE: &str = r"^\s*(>=|<=|>|<|=)\s*[0-9]+(\.[0-9]+)*\s*$";
fn duration_schema(description: &str, seconds: u64) -> Value {
    let default = format!("{seconds}s");
    json!({ "description": description, "type": "string", "pattern": "^[0-9]+ *(ms|s|m)$", "default": default })
}

fn gpus(description: &str) -> Value {
    let forms = or_parameter(
        json!([{ "const": "all" }, { "type": "integer", "minimum": 0, "maximum": 64 }]),
    );
    json!({ "description": description, "anyOf": forms["anyOf"] })
}

fn symptom_ids() -> Vec<&'static str> {
    symptom::all()
        .iter()
        .map(|symptom| symptom.id.as_str())
        .collect()
}

fn needs() -> Value {
    let mut schema = object_schema(
        json!({
            "gpus": { "type": "integer", "minimum": 0, "maximum": 64, "default": 1 },
            "driver": reference("range"),
            "libcudart": reference("range"),
            "compute_capability": reference("range"),
            "root": { "type": "boolean", "default": false },
            "peer_access": { "type": "boolean", "default": false },
        }),
        &[],
    );
    set(
        &mut schema,
        "description",
        json!("What the machine must have."),
    );
    schema
}

fn python() -> Value {
    let mut schema = object_schema(json!({ "needs": requirements_schema() }), &[]);
    set(
        &mut schema,
        "description",
        json!("The steps of the case are Python lines; what they need."),
    );
    schema
}

fn requirements_schema() -> Value {
    json!({
        "description": "Packages with the versions that will do, such as `torch >= 2.0` or `cupy-cuda12x | cupy`.",
        "type": "array", "items": { "type": "string", "pattern": "^[a-zA-Z0-9]" },
    })
}

fn when() -> Value {
    let value = json!({ "type": ["string", "integer"] });
    let mut schema = object_schema(
        json!({
            "driver": reference("range"),
            "libcudart": reference("range"),
            "compute_capability": reference("range"),
            "gpus": reference("range"),
            "parameters": { "type": "object", "additionalProperties": one_or_more(value) },
            "packages": requirements_schema(),
        }),
        &[],
    );
    set(
        &mut schema,
        "description",
        json!("Conditions on the machine; all that are given must hold."),
    );
    schema
}

fn expectation_schema() -> Value {
    object_schema(
        json!({
            "verdict": { "enum": ["reproduced", "not_reproduced"] },
            "when": reference("when"),
            "because": sentence("The reason, in a sentence."),
            "evidence": sentence("The committed report that supports it."),
        }),
        &["verdict", "because"],
    )
}

fn check() -> Value {
    let mut properties = json!({
        "at": sentence("The label of a step, or its C name where that is unique."),
        "when": reference("when"),
        "because": sentence("The reason, in a sentence."),
        "evidence": sentence("The committed report that supports it."),
    });
    fact::kind_schemas().for_each(|(key, schema)| set(&mut properties, key, schema));
    let mut schema = object_schema(properties, &[]);
    set(
        &mut schema,
        "oneOf",
        json!([{ "required": ["at"] }, { "required": ["exit"] }]),
    );
    schema
}

fn case() -> Value {
    object_schema(
        json!({
            "does": sentence("What is special about this order, in a few words."),
            "gpus": gpus("How many GPUs the worker is started with, if other than in the rest of the file."),
            "env": {
                "description": "Environment at exec.",
                "type": "object",
                "propertyNames": reference("variable"),
                "additionalProperties": { "type": "string" },
            },
            "probes": {
                "description": "Whether the worker runs probes after each step.",
                "type": "boolean", "default": true,
            },
            "python": python(),
            "expect": {
                "description": "Facts that every attempt of this case must show.",
                "type": "array", "items": reference("check"),
            },
            "steps": {
                "description": "The calls, in order.",
                "type": "array", "minItems": 1, "maxItems": 256, "items": reference("step"),
            },
        }),
        &["does", "steps"],
    )
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
        let schema = whole();
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
