//! Changes a document by its structure, because a change of its bytes is mostly rejected by the first reader.

use cuda_pitfalls::random::Random;
use serde_json::{Map, Value, json};

use crate::forms::{HOSTILE, parts};

const TEXTS: [&str; 14] = [
    HOSTILE,
    "",
    " ",
    "\0",
    "../../../etc/passwd",
    "%n%s${x}$(id)`id`",
    "'\"\\]]><INJ>-->",
    "|a|b\n|-|",
    "\u{2028}::error::INJ",
    "NaN",
    "simulated",
    "9999-01-01T00:00:00Z",
    "reproduced",
    "GPU-aa00beef-0000-4000-8000-000000000000",
];
const NUMBERS: [u64; 10] = [
    0,
    1,
    2,
    255,
    1 << 31,
    1 << 32,
    (1 << 53) + 1,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

fn scalar(random: &mut Random) -> Value {
    match random.below(8) {
        0..4 => TEXTS[random.below(TEXTS.len())].into(),
        4 | 5 => NUMBERS[random.below(NUMBERS.len())].into(),
        6 => [
            json!(-1),
            json!(i64::MIN),
            json!(0.1),
            json!(1e308),
            json!(true),
        ][random.below(5)]
        .clone(),
        _ => [
            Value::Null,
            json!([]),
            json!({}),
            json!([[]]),
            json!("x".repeat(5000)),
        ][random.below(5)]
        .clone(),
    }
}

/// Returns the text of the same syntax with a few changes; `None` if it is neither JSON, one JSON document per line,
/// nor TOML.
pub(crate) fn changed(text: &str, seed: u32) -> Option<String> {
    let mut random = Random::new(seed.into());
    if let Ok(mut document) = serde_json::from_str(text) {
        change(&mut document, &mut random);
        return Some(document.to_string());
    }
    if text.starts_with('{') {
        let mut lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_default())
            .collect();
        let (index, other) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(8) {
            0 => drop(lines.remove(index)),
            1 => lines.insert(other, lines[index].clone()),
            2 => lines.swap(index, other),
            3 => lines.truncate(index + 1),
            _ => change(&mut lines[index], &mut random),
        }
        return Some(lines.iter().map(|line| format!("{line}\n")).collect());
    }
    let mut document = toml::from_str(text).ok()?;
    change(&mut document, &mut random);
    toml::to_string(&document).ok()
}

/// Makes one to four changes, most of them of scalars: other types are rejected.
fn change(document: &mut Value, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let mut found = Vec::new();
        parts(document, "", &mut found);
        if found.is_empty() {
            return;
        }
        let at = found[random.below(found.len())].clone();
        let other = document
            .pointer(&found[random.below(found.len())])
            .cloned()
            .unwrap_or_default();
        let (above, key) = at.rsplit_once('/').expect("a part is below the whole");
        let value = document.pointer_mut(&at).expect("it was found there");
        match (random.below(16), value) {
            (0..6, Value::String(text)) => {
                let new = TEXTS[random.below(TEXTS.len())];
                *text = if random.below(2) == 0 {
                    new.to_owned()
                } else {
                    format!("{text}{new}")
                };
            }
            (0..6, Value::Number(number)) => {
                let (near, far) = (
                    number.as_u64().unwrap_or(1),
                    NUMBERS[random.below(NUMBERS.len())],
                );
                *number = [near.wrapping_add(1), near.saturating_sub(1), far, near / 2]
                    [random.below(4)]
                .into();
            }
            (0..6, Value::Bool(is_so)) => *is_so = !*is_so,
            (0..6, Value::Array(list)) => {
                let index = random.below(list.len());
                match random.below(3) {
                    0 => list.truncate(index),
                    1 if !list.is_empty() => list.insert(0, list[index].clone()),
                    _ => list.extend((index < list.len()).then(|| other)),
                }
            }
            (6, Value::Object(map)) => {
                drop(map.insert(TEXTS[random.below(TEXTS.len())].to_owned(), other))
            }
            (7, value) => *value = (0..random.below(140)).fold(other, |inner, _| json!([inner])),
            (8 | 9, value) => *value = scalar(random),
            (10 | 11, value) => *value = other,
            _ => match document.pointer_mut(above) {
                Some(Value::Object(map)) => {
                    drop(map.remove(&key.replace("~1", "/").replace("~0", "~")))
                }
                Some(Value::Array(list)) => {
                    drop(key.parse().map(|index: usize| list.remove(index)))
                }
                _ => *document = Value::Object(Map::new()),
            },
        }
    }
}
