//! `calls`: the driver calls that the process of a Python line made in the step, by name.

use std::collections::BTreeMap;

use serde_json::json;

use super::matcher::{Datum, OperandKind};
use super::{
    CheckReader, CheckedStep, FactColumn, FactKind, GpuNames, Look, Matcher, Sight, Truth, Unasked,
    words,
};
use crate::source::diagnostic::suggest_name;
use crate::source::schema::reference;
use crate::source::tree::{Node, TreeEntry};
use cuda_pitfalls_calls::{self as calls, CallLibrary};

pub(super) const CALLS: FactKind = FactKind {
    key: "calls",
    read: |facts, file, node| facts.calls = read(file, node),
    schema: || {
        json!({
            "description": "How often a Python line made these driver calls.",
            "type": "object", "minProperties": 1, "additionalProperties": reference("matcher"),
        })
    },
    matchers: |facts| facts.calls.values_mut().collect(),
    sentences: |facts| {
        facts
            .calls
            .iter()
            .map(|(name, matcher)| format!("the calls of {name} are {}", matcher.words(false)))
            .collect()
    },
    held: |facts, look, gpus| {
        facts
            .calls
            .iter()
            .map(|(name, matcher)| check_count(name, matcher, look, gpus))
            .collect()
    },
    needs_polling: false,
    told: FactColumn::Alone {
        heading: "driver calls",
        brief: "driver calls:",
        unasked: Unasked::Never,
    },
    seen: |look, _| {
        let made = look.step.calls.as_ref()?;
        let cell = words::calls(made);
        Some(Sight {
            words: format!("driver calls: {cell}"),
            cell,
            exact: json!(made),
        })
    },
};

fn read(file: &mut CheckReader<'_, '_>, node: &Node) -> BTreeMap<String, Matcher> {
    let mut made = BTreeMap::new();
    if let Some(call) = file.rows.iter().find_map(|row| match row {
        CheckedStep::Call(call)
            if !matches!(call.library, CallLibrary::Libc | CallLibrary::Harness) =>
        {
            Some(call)
        }
        _ => None,
    }) {
        let help = Some("name a step that is a Python line".to_string());
        let message = format!(
            "`{}` is a single call; calls are counted only for a Python line",
            call.name
        );
        file.reader.error(&node.place, message, help);
    }
    for TreeEntry { key, value } in file.reader.table(node).unwrap_or_default() {
        // Variants for per-thread default streams are counted under their own names.
        let plain = key.text.trim_end_matches("_ptsz").trim_end_matches("_ptds");
        if calls::find(plain).is_none_or(|call| call.library != CallLibrary::Driver) {
            let driver = calls::all().filter(|call| call.library == CallLibrary::Driver);
            let help = suggest_name(&key.text, driver.map(|call| call.name));
            file.reader.error(
                &key.place,
                format!("unknown driver call `{}`", key.text),
                help,
            );
        }
        let matcher = Matcher::read(file, value, OperandKind::Anything);
        made.extend(matcher.map(|matcher| (key.text.clone(), matcher)));
    }
    made
}

fn check_count(name: &str, matcher: &Matcher, look: &Look<'_>, gpus: &GpuNames<'_>) -> Truth {
    let Some(made) = &look.step.calls else {
        return Truth::Unknown("the calls of this step were not counted".to_string());
    };
    let count = made.get(name).copied().unwrap_or(0);
    matcher.compare(name, &Datum::Int(i128::from(count)), look, gpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Operand;
    use crate::observation::{Observation, StepObservation};

    #[test]
    fn a_call_that_was_not_made_is_zero_and_one_that_was_not_counted_is_unknown() {
        let counted = StepObservation {
            calls: Some([("cuInit".to_string(), 2)].into()),
            ..StepObservation::default()
        };
        let gpus = GpuNames {
            plan: &[],
            machine: &[],
        };
        let asked = |step: StepObservation, name: &str, count| {
            let observation = Observation {
                steps: vec![step],
                end: "0".into(),
            };
            let look = Look::all(&observation).next().unwrap();
            check_count(name, &Matcher::equal_to(Operand::Int(count)), &look, &gpus)
        };
        assert_eq!(asked(counted.clone(), "cuInit", 2), Truth::Yes);
        assert_eq!(asked(counted.clone(), "cuMemAlloc_v2", 0), Truth::Yes);
        assert!(matches!(asked(counted, "cuInit", 0), Truth::No(_)));
        assert!(matches!(
            asked(StepObservation::default(), "cuInit", 0),
            Truth::Unknown(_)
        ));
    }
}
